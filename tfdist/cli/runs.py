"""`tfdist runs`: the runs of a folder, and what several of them did."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tfdist.cli import common_options as shared
from tfdist.cli.status import status
from tfdist.cli.verb import Verb, VerbGroup
from tfdist.errors import UsageError

_LEAST = 2


@click.group(cls=VerbGroup)
def runs() -> None:
    """Lists the runs of a folder, and compares runs.

    `tfdist board` shows the same in a browser. Exit codes: 0; 2 when a directory is not a run's.
    """


@runs.command(cls=Verb)
@click.argument("folder", metavar="[FOLDER]", default="runs", type=shared.LocalPath())
@shared.as_json()
@click.pass_context
def ls(ctx: click.Context, folder: str, as_json: bool) -> None:
    """Lists the runs of a folder, by default of ./runs, the newest first, as `tfdist status` does."""
    ctx.invoke(status, run_dir=folder, watch=False, as_json=as_json, interval=1.0, verbose=False)


@runs.command(cls=Verb)
@click.argument("run_dirs", metavar="RUN_DIR RUN_DIR...", nargs=-1, required=True, type=shared.LocalPath())
@shared.as_json()
def compare(run_dirs: tuple[str, ...], as_json: bool) -> None:
    """Compares runs: how each ended, its last and best metrics, and where their configs differ.

    A star marks the best value, where the name of a metric tells which is better. Exits with 0; with 2 when there are
    fewer than two runs, or one cannot be read.
    """
    from tfdist.reports import comparison
    from tfdist.reports.comparison import compare as compared
    from tfdist.reports.comparison import read_compared

    if len(run_dirs) < _LEAST:
        raise UsageError(f"Expected two run directories or more to compare. Received: {', '.join(run_dirs)}")
    found = compared([read_compared(run_dir) for run_dir in run_dirs])
    names = _names(run_dirs)
    shown = comparison.to_json(names, found) if as_json else comparison.render(names, found)
    click.echo(json.dumps(shown, indent=2) if as_json else shown)


def _names(run_dirs: tuple[str, ...]) -> list[str]:
    """The last parts of the paths, or the paths where these are not different."""
    short = [Path(run_dir).resolve().name for run_dir in run_dirs]
    return short if len(set(short)) == len(short) else list(run_dirs)
