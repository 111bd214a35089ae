"""`tfdist status`: what a run is doing, or the runs of a folder, from their directories."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tfdist.cli import common_options as shared
from tfdist.cli.standard_streams import for_drawing
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.reports.status.run_status import RunStatus
    from tfdist.reports.status.status_reader import RunList

    Report = RunStatus | RunList

_SIGNALLED = 128


@click.command(cls=Verb)
@click.argument("run_dir", metavar="[RUN_DIR]", default="runs", type=shared.LocalPath())
@click.option("--watch", is_flag=True, help="Again and again, until the run is over, or all runs of a folder.")
@shared.as_json("As JSON; with --watch one line each time.")
@shared.seconds("--interval", 2, "Time between two looks.")
@shared.tracebacks
@click.pass_context
def status(ctx: click.Context, run_dir: str, watch: bool, as_json: bool, interval: float, verbose: bool) -> None:
    """Shows what every worker of a run is doing, the slowest first, or lists the runs in a folder.

    RUN_DIR is what `tfdist train` wrote into, or a folder with several such directories; by default ./runs. The line
    above the table says whether the run is running, was restarted, failed and why, or seems dead. Exits with 0 whatever
    the state of a run; with 130 when Ctrl-C ends --watch.
    """
    from tfdist.reports.status.status_reader import read_runs, read_status

    def look() -> Report:
        return read_runs(run_dir) or read_status(run_dir)

    if watch:
        ctx.exit(_watch(look, as_json, interval))
    found = look()
    click.echo(_document(found, indent=2) if as_json else _picture(found, _width()))


def _watch(look: Callable[[], Report], as_json: bool, interval: float) -> int:
    """Shows what it sees until the run is over, or all of a folder are, or a signal comes; returns the exit code."""
    from tfdist.launch.signals import Signals
    from tfdist.net.bounded_wait import wait_for
    from tfdist.reports.status.status_table import LiveDisplay

    board = LiveDisplay(for_drawing(sys.stdout))
    with Signals() as signals:
        while not signals.received:
            found = look()
            if as_json:
                click.echo(_document(found))
            else:
                board.show(_picture(found, *board.size()))
            if found.is_over:
                return 0
            wait_for([signals], interval)
            signals.drain()
        return _SIGNALLED + signals.received[0]


def _picture(found: Report, width: int | None = None, height: int | None = None) -> str:
    from tfdist.reports.status import status_table
    from tfdist.reports.status.status_reader import RunList

    if isinstance(found, RunList):
        return status_table.render_list(found, width, height)
    return status_table.render(found, width if height is not None else None, height)


def _width() -> int | None:
    """The columns of the terminal; None where there is none."""
    from tfdist.reports.status.status_table import LiveDisplay

    return LiveDisplay(sys.stdout).size()[0]


def _document(found: Report, indent: int | None = None) -> str:
    from tfdist.reports.status import status_table
    from tfdist.reports.status.status_reader import RunList

    document = status_table.list_to_json(found) if isinstance(found, RunList) else status_table.to_json(found)
    return json.dumps(document, indent=indent)
