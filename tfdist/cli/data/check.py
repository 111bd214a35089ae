"""`tfdist data check`: reads files and checks every record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tfdist.cli.data.data_files import NamesParam, by_format, files_of, for_each, format_option, processes_option
from tfdist.cli.verb import Verb
from tfdist.errors import DataError


@click.command(cls=Verb)
@click.argument("patterns", metavar="GLOB...", nargs=-1, required=True)
@format_option
@click.option(
    "--columns", type=NamesParam(), metavar="A,B", show_default="all", help="csv and parquet: those that are read."
)
@click.option(
    "--label-separator",
    default="\t",
    metavar="TEXT",
    show_default="a tab",
    help="text: what stands between label and text.",
)
@processes_option
@click.option("--json", "as_json", is_flag=True, help="As JSON, sizes and offsets in bytes.")
@click.option("--verbose", is_flag=True, help="Show tracebacks.")
@click.pass_context
def check(
    ctx: click.Context,
    /,
    patterns: tuple[str, ...],
    form: str | None,
    columns: list[str] | None,
    label_separator: str,
    processes: int | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Reads files and checks every record: TFRecord against its checksums, lines of CSV and text as a run reads them,
    row groups of Parquet against the checksums that they have, tar files by their headers and the parts of samples.

    GLOB is a file, a pattern, in quotes or not, or a folder: all files in it that may be data by their names. What
    `tfdist data shard` keeps beside its shards (*.shards.json) never is. Corrupt records are named by their file and
    offset, bad lines by their file and line, files of 0 bytes and shards that are missing by their names. Exits with 5
    when anything is wrong.
    """
    from tfdist.data.tools.file_checks import missing_shards, render, to_json, total_size

    paths, left_out = files_of(patterns, form)
    found: list[Any] = []
    for kind, files in by_format(paths, form).items():
        make, rules = _checker(kind, files, columns, label_separator)
        found += for_each(ctx, make, rules, files, processes, total_size(files), f"checking {kind}")
    missing = tuple(missing_shards(paths))
    click.echo(json.dumps(to_json(found, missing, left_out), indent=2) if as_json else render(found, missing))
    if missing or any(file.problems for file in found):
        ctx.exit(DataError.exit_code)


def _checker(kind: str, files: Sequence[Path], columns: list[str] | None, separator: str) -> tuple[Any, Any]:
    """The checker of a format's files, and its argument."""
    from tfdist.data.tools.file_checks import make_checker
    from tfdist.data.tools.format_checks import CsvRules, TextRules, make_line_checker

    if kind == "tfrecord":
        return make_checker, None
    if kind == "webdataset":
        from tfdist.data.tools.format_checks import make_tar_checker

        return make_tar_checker, None
    if kind == "parquet":
        from tfdist.data.files.parquet_footers import fatal_footers
        from tfdist.data.tools.format_checks import ParquetRules, make_parquet_checker

        return make_parquet_checker, ParquetRules(columns, fatal_footers(files))
    return make_line_checker, CsvRules.of(files, columns) if kind == "csv" else TextRules(separator)
