"""`tfdist data check`: reads TFRecord files and checks every record against its checksums."""

from __future__ import annotations

import json

import click

from tfdist.cli.data_files import for_each, processes_option
from tfdist.cli.verb import Verb
from tfdist.errors import DataError


@click.command(cls=Verb)
@click.argument("patterns", metavar="GLOB...", nargs=-1, required=True)
@processes_option
@click.option("--json", "as_json", is_flag=True, help="As JSON, sizes and offsets in bytes.")
@click.option("--verbose", is_flag=True, help="Show tracebacks.")
@click.pass_context
def check(
    ctx: click.Context, /, patterns: tuple[str, ...], processes: int | None, as_json: bool, verbose: bool
) -> None:
    """Reads TFRecord files and checks every record against its checksums.

    GLOB is a file or a pattern, in quotes or not. Corrupt records are named by their file and offset, shards that are
    missing by their names. Exits with 5 when anything is wrong.
    """
    from tfdist.data.checking import make_checker, missing_shards, total_size
    from tfdist.data.checking_wording import render, to_json
    from tfdist.data.files import matching

    paths = matching(patterns)
    found = for_each(ctx, make_checker, None, paths, processes, total_size(paths), "checking")
    missing = tuple(missing_shards(paths))
    click.echo(json.dumps(to_json(found, missing), indent=2) if as_json else render(found, missing))
    if missing or any(file.problems for file in found):
        ctx.exit(DataError.exit_code)
