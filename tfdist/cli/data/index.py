"""`tfdist data index`: writes where the records of files lie, so that no run has to look."""

from __future__ import annotations

import click

from tfdist.cli.data.data_files import by_format, files_of, for_each, format_option, processes_option
from tfdist.cli.verb import Verb
from tfdist.errors import UsageError


@click.command(cls=Verb)
@click.argument("patterns", metavar="GLOB...", nargs=-1, required=True)
@format_option
@processes_option
@click.option("--verbose", is_flag=True, help="Show tracebacks.")
@click.pass_context
def index(
    ctx: click.Context, /, patterns: tuple[str, ...], form: str | None, processes: int | None, verbose: bool
) -> None:
    """Finds where the records of files lie, so that no run needs to.

    GLOB is a file, a pattern or a folder of TFRecord, CSV, text or tar files; Parquet files have their own. The
    index of each is kept beside it, or in ~/.cache/tfdist where that cannot be written, and is made again when the file
    changes.
    """
    from tfdist.data.tools.index_builder import make_indexer
    from tfdist.text import format_count

    groups = by_format(files_of(patterns, form)[0], form)
    if own := groups.pop("parquet", []):
        click.echo(f"{format_count(len(own), 'Parquet file')}: indexed by themselves, nothing to do")
    for form_of_files, paths in groups.items():
        kind = {"tfrecord": "tfrecord", "webdataset": "tar"}.get(form_of_files, "lines")
        found = for_each(ctx, make_indexer, kind, paths, processes, len(paths), "indexing")
        for file in found:
            if file.place is None:
                raise UsageError(
                    f"The index of {file.path} can be kept neither beside it nor in ~/.cache/tfdist. Expected one of "
                    "the two to be a directory that this user can write to, with room for it."
                )
        noun = {"lines": "line", "tar": "sample"}.get(kind, "record")
        records = format_count(sum(file.records for file in found), noun)
        click.echo(f"{format_count(len(found), 'file')}, {records}: indexed beside the files or in ~/.cache/tfdist")
