"""`tfdist config`: shows, checks and starts configs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from tfdist.cli.common_options import LocalPath, overrides, seconds
from tfdist.cli.default_arguments import config_argument
from tfdist.cli.verb import Verb, VerbGroup
from tfdist.config.load import dump_yaml, listed, load_config, load_parts
from tfdist.config.yaml_document import Document
from tfdist.errors import ConfigError, DataError, WorkerFailedError

_CHECK_SECONDS = 300


def config_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the option that the verbs take which read a config."""
    return config_argument(overrides(command))


@click.group(cls=VerbGroup)
def config() -> None:
    """Shows, checks or starts a config."""


@config.command(cls=Verb)
@config_arguments
def show(path: str, overrides: tuple[str, ...]) -> None:
    """Prints a config (default ./tfdist.yaml) as a run would see it: overridden, with defaults and absolute names."""
    click.echo(dump_yaml(load_config(path, overrides)), nl=False)


@config.command(cls=Verb)
@config_arguments
@click.option("--static", is_flag=True, help="Leave out what takes TensorFlow: names, arguments, shapes.")
@seconds("--timeout", _CHECK_SECONDS, "How long it may take to build the model and the rest.")
def check(path: str, overrides: tuple[str, ...], static: bool, timeout: float) -> None:
    """Says all that a run would refuse, without running: keys, values, files, names, arguments and shapes.

    CONFIG is by default ./tfdist.yaml. The model is built, as in a run, in a process of its own. Exits with 2 when the
    config cannot be used, and with 5 when only its data cannot.
    """
    # Imported here: to show a config needs neither.
    from tfdist.data.files.missing_files import missing_files
    from tfdist.launch.config_process import check_objects

    parts = load_parts(path, overrides)
    found = [(problem.key, problem.problem, problem.exit_code) for problem in parts.problems]
    missing = missing_files({key: parts.values.get(key) for key in ("data.train", "data.validation")})
    found += [(key, problem, DataError.exit_code) for key, problem in missing.items()]
    if not static:
        skipped = {key.rpartition(".")[0] for key in missing}
        try:
            found += check_objects(parts.values, skipped, timeout)
        except WorkerFailedError as error:
            if not found:
                raise
            # What is known to be wrong may be why.
            raise ConfigError(f"{_error(parts.document, found)}\nThe rest was not checked. {error}") from error
    if found:
        raise _error(parts.document, found)
    click.echo(f"{path}: ok")


@config.command(cls=Verb)
@click.argument("data", type=LocalPath())
@click.argument("dest", default="tfdist.yaml", metavar="[CONFIG]", type=LocalPath(path_type=Path))
@click.option("--x", metavar="NAME", show_default="by its name, such as X", help="The array of an .npz that is x.")
@click.option(
    "--label",
    metavar="NAME",
    help="The column of CSV or Parquet files, feature of TFRecord files, or array of an .npz that is y.",
)
def init(data: str, dest: Path, x: str | None, label: str | None) -> None:
    """Writes a config to start with, from DATA: it trains as it is, and its comments say what to change.

    DATA is an .npz with x_train and y_train, X and Y, or others that --x and --label name; CSV, Parquet or TFRecord
    files (a pattern in quotes, or a folder), or a folder with one folder of images a class. CONFIG is never replaced.
    """
    # Imported here: to show a config needs none of it.
    from tfdist.cli.standard_streams import tf_lines_hidden
    from tfdist.data.tools.starter.data_kind import kind_of
    from tfdist.data.tools.starter.starter_config import check_new, starter_text, write_new
    from tfdist.data.tools.starter.starter_data import look_at

    check_new(dest)
    with tf_lines_hidden():
        found = look_at(kind_of(data), label, x)
    write_new(dest, starter_text(found, dest))
    click.echo(f"{dest}: {found.samples:,} samples of the shape {list(found.shape)}, labels: {found.labels.words}")
    for note in found.notes:
        click.echo(f"  {note}")
    click.echo(f"  train it with: tfdist train {shlex.quote(str(dest))}")


@config.command(cls=Verb)
def schema() -> None:
    """Prints the JSON schema of a config, by which editors complete and check one while it is written."""
    # Imported here: to show a config does not need it.
    from tfdist.config.json_schema import schema_text

    click.echo(schema_text())


def _error(document: Document, found: Sequence[tuple[str, str, int]]) -> ConfigError | DataError:
    """All mistakes as one error, each with its place, key, text and exit code."""
    kind = DataError if all(code == DataError.exit_code for _, _, code in found) else ConfigError
    return kind(listed(document, [(key, f"{key}: {text}") for key, text, _ in found]))
