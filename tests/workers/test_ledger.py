"""The ledger of real launchers whose workers are stand-ins: over a restart and a resumed run the account adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workers.launcher_processes import Launchers
from tfdist.reports.ledger.account import Account, recoveries
from tfdist.reports.ledger.account_reader import build_account
from tfdist.rundir import RunDir, ledger_lines
from tfdist.rundir.ledger_lines import AttemptPhase, TimeKind


def account_of(run: RunDir) -> Account:
    read = ledger_lines.read_ledger(run.ledger_file)
    made = build_account(read.entries, read.damaged)
    assert made is not None
    return made


def test_an_account_over_a_restart_and_a_resumed_run(launchers: Launchers, tmp_path: Path) -> None:
    first = ["0@0:account:40", "0@0:signal:9", "1@0:hang", "0@1:step:30", "0@1:account:50"]
    launcher = launchers.start(nproc=2, run_dir="r", args=first, max_restarts=1)
    assert launcher.end() == 0, launcher.err
    run = RunDir(tmp_path / "r")
    last = json.loads(run.ledger_file.read_text().splitlines()[-1])
    # As a launcher leaves it that is killed in the middle of its last word.
    run.ledger_file.write_bytes(run.ledger_file.read_bytes()[:-20])
    again = launchers.start(nproc=2, run_dir="r", resume="auto", args=["0:step:50", "0:account:60"])
    assert again.end() == 0, again.err

    made = account_of(run)
    assert made.damaged == 1
    assert sum(made.seconds.values()) == pytest.approx(made.wall)
    assert [(a.opens, a.phase) for a in made.attempts] == [
        (True, AttemptPhase.RESTARTING),
        (False, AttemptPhase.FAILED),  # by the state that its chief has left
        (True, AttemptPhase.DONE),
    ]
    assert [(a.begun_at, a.reached, a.lost) for a in made.attempts] == [(0, 40, 10), (30, 50, 0), (50, 60, 0)]
    assert "worker 0: killed by SIGKILL" in made.attempts[0].why
    # The delay before a restart is lost, and the time between the two jobs is not counted.
    assert made.seconds[TimeKind.RESTART] >= 1
    assert made.attempts[0].since <= made.attempts[0].at == made.attempts[1].since
    assert last["at"] < made.attempts[2].since
    (recovery,) = recoveries(made.attempts)
    assert (recovery.attempt, recovery.again) == (1, 10)
    assert made.attempts[0].noticed is not None and made.attempts[0].ended is not None
    assert made.attempts[0].noticed <= made.attempts[0].ended <= made.attempts[1].since
    assert recovery.seconds["delay"] >= 1 and recovery.seconds["compile"] > 0
    for kind in (TimeKind.STEP, TimeKind.COMPILE, TimeKind.START_UP, TimeKind.REPLAY):
        assert made.seconds[kind] > 0


def test_a_launcher_without_the_chief_writes_none(
    launchers: Launchers, tmp_path: Path, two_ports: tuple[int, int]
) -> None:
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    both = [
        launchers.start(folder=f"host{index}", workers=workers, index=index, run_dir="r", args=["*:code:0"])
        for index in (0, 1)
    ]
    assert [launcher.end() for launcher in both] == [0, 0]
    assert [(tmp_path / f"host{index}" / "r" / "ledger.jsonl").exists() for index in (0, 1)] == [True, False]
