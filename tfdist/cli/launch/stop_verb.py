"""`tfdist stop`: stops a run, by its directory."""

from __future__ import annotations

import click

from tfdist.cli import common_options as shared
from tfdist.cli.default_arguments import run_argument
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@run_argument(kind=click.Path())
@shared.seconds("--grace", 60, "How long the run may take to stop after a step; then its workers are ended at once.")
@shared.tracebacks
def stop(run_dir: str, grace: float, verbose: bool) -> None:
    """Stops a run whose launcher is on this host, all its workers after the same step, and waits for its end.

    RUN_DIR is what the run writes into, by default the newest in ./runs. Exits with 0 when the run has ended by this.
    """
    from tfdist.launch.run_dir.run_stop import StopMeans, stop_run
    from tfdist.text import format_duration

    stopped = stop_run(run_dir, grace)
    how = "" if stopped.how is StopMeans.ASKED else f" ({stopped.how.value})"
    click.echo(f"stopped: {stopped.run} at step {stopped.step}, in {format_duration(stopped.seconds)}{how}")
    if stopped.has_checkpoints:
        click.echo(f"to go on: the same command with --resume auto --run-dir {stopped.run}")
