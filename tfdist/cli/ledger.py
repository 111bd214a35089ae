"""`tfdist ledger`: where the wall time of a run went."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tfdist.cli import common_options as shared
from tfdist.cli.default_arguments import run_argument
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@run_argument()
@shared.as_json()
@click.option(
    "-o",
    "--output",
    "html_file",
    cls=shared.RenamedOption,
    former=["--html"],
    type=shared.LocalPath(),
    metavar="FILE",
    help="Write it as one self-contained HTML file, with the losses of the epochs.",
)
@shared.tracebacks
def ledger(run_dir: str, as_json: bool, html_file: str | None, verbose: bool) -> None:
    """Shows where the wall time of a run went, over all its restarts.

    RUN_DIR is what `tfdist train` wrote into, on the chief's machine, by default the newest in ./runs; the run may
    still be running. Goodput is the part of the wall time that went into training steps that were not done again. Exits
    with 0; with 2 when RUN_DIR has no ledger.
    """
    from tfdist.launch.run_dir.epoch_metrics import read_metrics
    from tfdist.reports.ledger import account_table, html_chart
    from tfdist.reports.ledger.account_reader import read_account
    from tfdist.rundir import RunDir, atomic_files

    name, account = read_account(run_dir)
    run = RunDir(Path(run_dir))
    place = str(run)
    if html_file is not None:
        page = html_chart.render(name, place, account, read_metrics(run.metrics_file))
        atomic_files.write_text(html_file, page, durable=False, named_by="--output")
    if as_json:
        click.echo(json.dumps(account_table.to_json(name, place, account), indent=2))
    else:
        click.echo(account_table.render(name, place, account))
        if html_file is not None:
            click.echo(f"\npicture: {html_file}")
