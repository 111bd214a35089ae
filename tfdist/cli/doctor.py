"""`tfdist doctor`: checks this machine, and with a worker list the connections between all hosts."""

from __future__ import annotations

import json

import click

from tfdist.cli import common_options as shared
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@click.option("--workers", metavar="LIST", help="The whole cluster: host1:20000,host2:20000. Run it on each host.")
@click.option("--index", type=click.IntRange(min=0), metavar="I", help="Check as entry I of the list only.")
@shared.as_json("Print what was found as JSON.")
@shared.seconds("--timeout", 60, "How long all of it may take.")
@click.pass_context
def doctor(ctx: click.Context, /, workers: str | None, index: int | None, as_json: bool, timeout: float) -> None:
    """Checks this machine and its connections before a job needs them.

    Without --workers: versions, GPUs, memory, limits, and what a run here would use. With the list, started on each
    host at the same time, also every pair of workers. A running job is never touched. Exits with 0 when nothing fails,
    with 2 when something here must be corrected, with 3 when the cluster would not form.
    """
    # Imported here: `tfdist --help` does not need it.
    from tfdist.doctor.doctor_report import render
    from tfdist.doctor.examination import Doctor

    report = Doctor(workers, index, timeout).examine(lambda line: click.echo(line, err=True))
    click.echo(json.dumps(report.to_json(), indent=2) if as_json else render(report))
    ctx.exit(report.code)
