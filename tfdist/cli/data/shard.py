"""`tfdist data shard`: makes TFRecord shards of other formats."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli.common_options import LocalPath
from tfdist.cli.data.data_files import SUFFIXES, NamesParam, one_a_core, processes_option
from tfdist.cli.main import INTERRUPTED
from tfdist.cli.verb import Verb
from tfdist.errors import DataError, TfdistError, UsageError

if TYPE_CHECKING:
    from tfdist.config import SourceConfig
    from tfdist.data.tools.shard_job import ShardJob

_FORMATS = ("npz", "csv", "images", "text")
"""Of which shards are made."""


class SizeParam(click.ParamType):
    """`HEIGHT,WIDTH`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"expected HEIGHT,WIDTH in pixels, such as 224,224. Received: {value!r}", param, ctx)
        return int(parts[0]), int(parts[1])


@click.command(cls=Verb)
@click.argument("source", metavar="SOURCE", type=LocalPath())
@click.argument("dest", metavar="DEST", type=LocalPath(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    show_default="by its name: .npz, .csv, .txt, .tsv, or a folder of images",
    help="Of SOURCE.",
)
@click.option("--split", type=click.Choice(["train", "test"]), show_default="train", help="npz: which arrays.")
@click.option("--label", metavar="COLUMN", help="csv: the column that is the label.")
@click.option(
    "--columns", type=NamesParam(), metavar="A,B", show_default="all others", help="csv: the columns of the features."
)
@click.option(
    "--label-separator", metavar="TEXT", show_default="a tab", help="text: what stands between label and text."
)
@click.option("--vectorize", metavar="PATH", help="text: dotted path of a function from texts to what is written.")
@click.option("--size", type=SizeParam(), metavar="H,W", help="images: to which they are resized when they are read.")
@click.option("--channels", type=click.Choice(["1", "3", "4"]), show_default="3", help="images: how they are decoded.")
@click.option(
    "--name", metavar="NAME", show_default="the split, or SOURCE's name", help="What the shards' names begin with."
)
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=99999),
    metavar="N",
    show_default="files of about 128 MB",
    help="How many.",
)
@processes_option
@click.option("--overwrite", is_flag=True, help="Replace shards of this name that were made of something else.")
@click.option("--verbose", is_flag=True, help="Show tracebacks.")
@click.pass_context
def shard(ctx: click.Context, /, source: str, dest: Path, name: str | None, **options: Any) -> None:
    """Makes TFRecord shards of arrays, CSV, images or text, in several processes.

    SOURCE is a file, a pattern in quotes, or a folder of images; DEST a directory. The same command resumes where the
    first one ended: finished shards stay as long as SOURCE and options are the same. At the end it prints the section
    of a config that reads the shards.
    """
    # Imported here: NumPy and YAML's parser take longer to load than `tfdist --help` may take.
    from tfdist.data.tools.shard_job import ShardJob, ShardRequest

    section = _section(source, options)
    chosen = name or getattr(section, "split", None) or Path(source).stem.strip("*?-_.") or "data"
    if os.sep in chosen or chosen.startswith("."):
        raise UsageError(f"--name: expected the beginning of a file name. Received: {chosen!r}")
    processes = options["processes"] or one_a_core()
    request = ShardRequest(section, dest, chosen, options["shards"], processes, options["overwrite"])
    with ShardJob(request) as sharding:
        _run(ctx, sharding, chosen)
        click.echo(_outcome(sharding, chosen, dest))


def _run(ctx: click.Context, sharding: ShardJob, name: str) -> None:
    kept = sharding.finished
    if kept:
        click.echo(f"{kept} of {sharding.shards} shards are finished already and stay", err=True)
    left = sharding.left
    if not left:
        return
    try:
        with click.progressbar(
            length=left, label=f"{name}: samples", show_pos=True, update_min_steps=max(1, left // 500), file=sys.stderr
        ) as bar:
            sharding.run(bar.update)
    except KeyboardInterrupt:
        click.echo(f"stopped: Ctrl-C, SIGINT; {_progress(sharding)}", err=True)
        ctx.exit(INTERRUPTED)
    except TfdistError:
        click.echo(_progress(sharding), err=True)
        raise


def _progress(sharding: ShardJob) -> str:
    done = f"{sharding.finished} of {sharding.shards} shards are finished"
    return f"{done}; the same command makes the others"


def _outcome(sharding: ShardJob, name: str, dest: Path) -> str:
    from tfdist.data.tools.shard_manifest import config_text
    from tfdist.text import format_bytes, format_count

    said = f"{name}: {format_count(sharding.samples, 'sample')} in {format_count(sharding.shards, 'shard')} in {dest}, "
    return f"{said}{format_bytes(sharding.size)}. In a config:\n\n{config_text(sharding.section())}"


def _section(source: str, options: dict[str, Any]) -> SourceConfig:
    """The section of a config that describes SOURCE."""
    from tfdist.config.data_sections import FORMATS
    from tfdist.config.section import build

    form = options["form"] or _format_of(source)
    path = os.path.abspath(os.path.expanduser(source))
    own = {
        "npz": {"split": options["split"]},
        "csv": {"label": options["label"], "columns": options["columns"]},
        "text": {"label_separator": options["label_separator"], "vectorize": options["vectorize"]},
        "images": {"size": options["size"], "channels": options["channels"] and int(options["channels"])},
    }
    foreign = {key for other, keys in own.items() if other != form for key, value in keys.items() if value is not None}
    if foreign:
        flag = "--" + min(foreign).replace("_", "-")
        raise UsageError(f"{flag} is no option of {form}. Leave it out, or say --format. Received: {source}")
    if form == "csv" and options["label"] is None:
        raise UsageError("--label is missing: which of the CSV file's columns is the label. Expected --label COLUMN.")
    if form == "images" and options["size"] is None:
        raise UsageError(
            "--size is missing: to which the images are resized when they are read, such as --size 224,224. They are "
            "written as they are, and a config may say another size later."
        )
    given = {key: value for key, value in own[form].items() if value is not None}
    if form == "npz":
        given.setdefault("split", "train")
    key = "path" if form in ("npz", "images") else "files"
    return build(FORMATS[form], {"format": form, key: path, **given})


def _format_of(source: str) -> str:
    if os.path.isdir(source):
        return "images"
    form = SUFFIXES.get(Path(source).suffix.lower())
    if form in _FORMATS:
        return form
    if form is not None:
        raise UsageError(
            f"{source} is {form}, of which no shards are made. Expected {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}. "
            f"A config reads such files as they are: format: {form}."
        )
    if not glob.has_magic(source) and not os.path.lexists(source):
        raise DataError(f"No such file or directory: {source} (working directory: {os.getcwd()}).")
    ends = [end for end, form in SUFFIXES.items() if form in _FORMATS]
    raise UsageError(
        f"What {source} is cannot be told from its name. Expected a name that ends in {', '.join(ends)}, a folder of "
        "images, or --format."
    )
