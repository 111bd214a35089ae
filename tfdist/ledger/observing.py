"""Reads the ledger of a run directory."""

from __future__ import annotations

from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.ledger.account import Account
from tfdist.ledger.accounting import account
from tfdist.rundir import ledger
from tfdist.rundir.layout import RunDir
from tfdist.rundir.reading import read_run


def observe(run_dir: str | Path) -> tuple[str, Account]:
    """The name of the run in a run directory, and where its time went until now.

    Raises:
        RunDirError: The directory is not a run's, or has no ledger, or nothing is in it yet.
    """
    run = RunDir(Path(run_dir))
    name = read_run(run).name or "run"
    read = ledger.read(run.ledger_file)
    found = account(read.entries, read.damaged)
    if found is None:
        raise RunDirError(
            f"The ledger {run.ledger_file} does not say yet that workers were started. Expected a run whose workers "
            f"have started. Received: {len(read.entries)} lines, and {read.damaged} that are damaged."
        )
    return name, found
