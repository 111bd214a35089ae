"""`tfdist selftest`: shows that several devices and workers of this machine give the numbers of one device."""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@shared.devices
@shared.count("--logical-devices", "Split each GPU, or the CPU, into N.", "2 where there is one device, else no split")
@shared.count("--nproc", "Workers.", "one on each GPU, 2 on the CPU or on one GPU")
@shared.batch_norm
@shared.communication
@shared.compression
@shared.kernels
@click.option("--only", multiple=True, metavar="ROW", help="Run this row alone; repeatable.")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    show_default="selftest-HOST-DATE",
    help="Where the reports go: a new directory.",
)
@shared.as_json("Print the report as JSON in place of the table.")
@shared.seconds("--timeout", 1800, "How long all of it may take.")
@click.option("--verbose", is_flag=True, help="Show what the runs say, and tracebacks.")
@click.pass_context
def selftest(
    ctx: click.Context,
    /,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Shows that several devices and workers of this machine give the numbers of one device.

    Trains small models with the features of Keras on one device, on all devices and on one worker a device, and
    compares them step by step; kills and resumes a training; checks copies between devices to the bit; takes the times
    of a step. On machines without a GPU all of it runs on the CPU. All rows take about five minutes on two cores.
    Writes report.md, to read, and report.json, to send. Exits with 0 when all is the same, with 6 when something
    differs, with 4 when a run failed.
    """
    # Imported here: NumPy takes longer to load than `tfdist --help` may take.
    from tfdist.selftest.report_texts import ReportFolder, TableLines, closing, opening
    from tfdist.selftest.rows import SelftestSpec
    from tfdist.selftest.selftest import Listener, run_selftest
    from tfdist.verify.runs import Interrupted

    folder = ReportFolder.chosen(output, socket.gethostname(), time.time())
    spec = SelftestSpec(**{name: value for name, value in options.items() if value is not None})
    lines = TableLines(spec.rows)

    # The terminal's: while a job runs, its launcher writes elsewhere. Where JSON is printed, the table is progress.
    progress, table = sys.stderr, sys.stderr if as_json else sys.stdout

    def show(*texts: str) -> None:
        for text in texts:
            click.echo(text, file=table)

    listener = Listener(
        tell=lambda line: click.echo(line, file=progress),
        begin=lambda machine, layouts: show(opening(machine, layouts, spec.run_options), lines.head()),
        result=lambda result: show(*lines.lines(result)),
    )
    rows = f"{len(spec.rows)} rows take about five minutes on two cores" if not spec.only else "some rows"
    click.echo(f"selftest: {rows}, {spec.timeout:g} s at most (--timeout); --only ROW runs one of them", err=True)
    try:
        report = run_selftest(spec, listener)
    except Interrupted as interrupted:
        click.echo("stopped: nothing was written, all runs have ended", err=True)
        ctx.exit(interrupted.code)
    markdown, document = folder.write(report)
    show("", closing(report))
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    show(f"report: {markdown}; the file to send: {document}")
    ctx.exit(report.code)
