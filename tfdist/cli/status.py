"""`tfdist status`: what a run is doing, from its run directory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tfdist.cli import common_options as shared
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.reports.status.run_status import RunStatus

_SIGNALLED = 128


@click.command(cls=Verb)
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path())
@click.option("--watch", is_flag=True, help="Again and again, until the run is over.")
@shared.as_json("As JSON; with --watch one line each time.")
@shared.seconds("--interval", 2, "Time between two looks.")
@shared.tracebacks
@click.pass_context
def status(ctx: click.Context, run_dir: str, watch: bool, as_json: bool, interval: float, verbose: bool) -> None:
    """Shows what every worker of a run is doing, the slowest first.

    RUN_DIR is what `tfdist train` wrote into. The line above the table says whether the run is running, was restarted,
    failed and why, or seems dead. Exits with 0 whatever the state of the run; with 130 when Ctrl-C ends --watch.
    """
    from tfdist.reports.status.status_reader import read_status

    if watch:
        ctx.exit(_watch(lambda: read_status(run_dir), as_json, interval))
    found = read_status(run_dir)
    click.echo(_document(found, indent=2) if as_json else _picture(found))


def _watch(look: Callable[[], RunStatus], as_json: bool, interval: float) -> int:
    """Shows what it sees until the run is over or a signal comes; returns the exit code."""
    from tfdist.launch.signals import Signals
    from tfdist.net.bounded_wait import wait_for
    from tfdist.reports.status.live_display import LiveDisplay

    board = LiveDisplay(sys.stdout)
    with Signals() as signals:
        while not signals.received:
            found = look()
            if as_json:
                click.echo(_document(found))
            else:
                board.show(_picture(found, *board.size()))
            if found.condition.is_over:
                return 0
            wait_for([signals], interval)
            signals.drain()
        return _SIGNALLED + signals.received[0]


def _picture(found: RunStatus, width: int | None = None, height: int | None = None) -> str:
    from tfdist.reports.status.status_table import render

    return render(found, width, height)


def _document(found: RunStatus, indent: int | None = None) -> str:
    from tfdist.reports.status.status_json import to_json

    return json.dumps(to_json(found), indent=indent)
