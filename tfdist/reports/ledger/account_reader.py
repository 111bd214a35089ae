"""Reader of the ledger of a run directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.requeues.run_starts import resumed_steps
from tfdist.reports.ledger.account import Account
from tfdist.reports.ledger.account_builder import build_account
from tfdist.rundir import ledger_lines
from tfdist.rundir.layout import RunDir
from tfdist.rundir.run_snapshot import read_run


def read_account(run_dir: str | Path) -> tuple[str, Account]:
    """The name of the run in a run directory, and where its time went until now.

    Raises:
        RunDirError: The directory is not a run's, or has no ledger, or nothing is in it yet.
    """
    run = RunDir(Path(run_dir))
    name = read_run(run).name or "run"
    lines = damaged = 0

    def entries() -> Iterator[ledger_lines.LedgerEntry]:
        nonlocal lines, damaged
        for entry in ledger_lines.scan_ledger(run.ledger_file):
            if entry is None:
                damaged += 1
            else:
                lines += 1
                yield entry

    found = build_account(entries(), resumed=resumed_steps(run.resumes_file))
    if found is None:
        raise RunDirError(
            f"The ledger {run.ledger_file} does not say yet that workers were started. Expected a run whose workers "
            f"have started. Received: {lines} lines, and {damaged} that are damaged."
        )
    return name, dataclasses.replace(found, damaged=damaged)
