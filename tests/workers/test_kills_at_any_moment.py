"""A run of two workers that is killed at any moment, again and again, ends as the one that was never touched.

TFDIST_KILLS=200 kills so often; without it, there are a few kills, and with TFDIST_SLOW_TESTS=1 thirty.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT
from tests.helpers.resumable_model import STEPS, end_of, write_config
from tests.helpers.waiting import until
from tests.helpers.warm_workers import warm
from tests.workers.kill_plan import Kill, draw_plan, write_plan
from tests.workers.killed_model import samples_file
from tests.workers.test_resume import begin, both, last_step, same, same_but_for_rounding, wait_for_checkpoint
from tfdist.rundir import RunDir, WorkerState

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
KILLS = int(os.environ.get("TFDIST_KILLS", 30 if SLOW else 2))
SEED = int(os.environ.get("TFDIST_KILLS_SEED", 1))
ATTEMPT_SECONDS = 60
RUN_SECONDS = ATTEMPT_SECONDS * (KILLS + 2)
_RESUMES = re.compile(r"resumes after step ([\d,]+)")


def train(config: Path, run: RunDir, plan: Sequence[Kill], *options: str, expected: int = 0) -> None:
    """Trains through the kills of a plan, to the exit code that is expected."""
    environ = warm({**os.environ, **write_plan(run.path.with_suffix(".plan"), plan)})
    command = [sys.executable, "-m", "tfdist", "train", str(config), "--run-dir", str(run.path), *options]
    said = run.path.with_suffix(".said")
    with said.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=out, start_new_session=True)
        try:
            for attempt, kill in enumerate(plan):
                if kill.moment == "begin":
                    kill_at_the_beginning(run, attempt, kill, process)
            code = process.wait(RUN_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert code == expected, said.read_text()[-3000:]


def kill_at_the_beginning(run: RunDir, attempt: int, kill: Kill, launcher: subprocess.Popen[bytes]) -> None:
    """Kills once the processes of an attempt are there, which is before they know anything of one another."""

    def states() -> list[WorkerState] | None:
        assert launcher.poll() is None, "the job ended before the attempt"
        found = [WorkerState.read(run.state_file(victim)) for victim in kill.victims]
        return [s for s in found if s] if all(s is not None and s.attempt == attempt for s in found) else None

    for state in until(states, RUN_SECONDS):
        os.kill(state.pid, signal.SIGKILL)


def starts(run: RunDir, attempts: int) -> list[int | None]:
    """The steps done before each attempt, as its chief said; None where it was killed before."""
    found = [_RESUMES.search(run.log_file(0, attempt).read_text()) for attempt in range(attempts)]
    return [0 if number == 0 else match and int(match[1].replace(",", "")) for number, match in enumerate(found)]


def samples(run: RunDir, index: int, attempt: int) -> list[list[int]]:
    """The samples of a worker's steps in an attempt; empty where it was killed before it had any."""
    path = samples_file(run, index, attempt)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def batches(run: RunDir, workers: int, attempt: int) -> list[list[int]]:
    """The samples of the global batches of an attempt, as far as all workers had their part, in a fixed order."""
    parts = zip(*(samples(run, index, attempt) for index in range(workers)), strict=False)
    return [sorted(sample for part in batch for sample in part) for batch in parts]


def check_attempts(run: RunDir, whole: RunDir, plan: Sequence[Kill]) -> None:
    """Checks that each kill of a plan came, and what the attempts began at and trained on."""
    begun = starts(run, len(plan) + 1)
    for attempt, kill in enumerate(plan):
        failure = json.loads(run.attempt_failure_file(attempt).read_text())
        assert (failure["type"], failure["index"] in kill.victims) == ("SIGKILL", True), (attempt, kill, failure)
        # The chief builds the model before it says where it resumes.
        assert begun[attempt] is not None or kill.moment in ("begin", "build"), (attempt, kill)
    known = [step for step in begun[1:] if step is not None]
    assert min(known) > 0 and known == sorted(known)
    for worker in (0, 1):
        expected = samples(whole, worker, 0)
        for attempt, step in enumerate(begun):
            trained = samples(run, worker, attempt)
            assert step is not None or not trained
            if step is not None:
                assert trained == expected[step : step + len(trained)], (worker, attempt, step)
    trained_first = [len(samples(run, kill.watcher, attempt)) for attempt, kill in enumerate(plan) if kill.most_steps]
    assert min(trained_first) > 0


def config_for(folder: Path, plan: Sequence[Kill], **arguments: object) -> Path:
    """A config of a training that is long enough for a plan."""
    epochs = -(-sum(kill.most_steps for kill in plan) // STEPS) + 1
    model = {"build": "tests.workers.killed_model.model", "args": arguments}
    return write_config(folder, seed=3, model=model, fit={"epochs": epochs})


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunDir]:
    """A config, and its run that was never touched; on two workers."""
    folder = tmp_path_factory.mktemp("untouched")
    config, whole = config_for(folder, draw_plan(KILLS, SEED)), RunDir(folder / "whole")
    train(config, whole, (), "--nproc", "2")
    return config, whole


@pytest.mark.bound(2 * RUN_SECONDS)
def test_killed_anywhere_a_run_ends_as_the_one_that_was_not(untouched: tuple[Path, RunDir], tmp_path: Path) -> None:
    config, whole = untouched
    plan, run = draw_plan(KILLS, SEED), RunDir(tmp_path / "killed")
    train(config, run, plan, "--nproc", "2", "--max-restarts", str(KILLS))
    check_attempts(run, whole, plan)
    same(end_of(whole), end_of(run))


@pytest.mark.slow
@pytest.mark.bound(2 * RUN_SECONDS)
def test_two_launchers_of_which_one_is_killed(
    untouched: tuple[Path, RunDir], tmp_path: Path, two_ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With run directories of their own; both are started again with the same command."""
    config, whole = untouched
    for name, value in write_plan(tmp_path / "plan", ()).items():
        monkeypatch.setenv(name, value)
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    runs = [RunDir(tmp_path / f"machine-{index}") for index in range(2)]

    def start(index: int) -> subprocess.Popen[str]:
        return begin(config, runs[index], "--workers", workers, "--index", str(index), "--resume", "auto")

    with both(start) as (chief, other):
        wait_for_checkpoint(runs[0], 2 * STEPS)
        other.kill()
        assert chief.wait(ATTEMPT_SECONDS) == 4
    assert last_step(runs[0]) > 2 * STEPS
    with both(start) as (chief, other):
        assert [process.wait(RUN_SECONDS) for process in (chief, other)] == [0, 0]
    begun = starts(runs[0], 2)[1]
    assert begun is not None and begun > 2 * STEPS
    for worker, run in enumerate(runs):
        assert samples(run, worker, 1) == samples(whole, worker, 0)[begun:]
    same(end_of(whole), end_of(runs[0]))


@pytest.mark.slow
@pytest.mark.bound(2 * RUN_SECONDS)
def test_on_two_then_three_workers_then_one(tmp_path: Path) -> None:
    """Within what rounding does."""
    plan = (Kill("step", 40, 1, (0,)), Kill("step", 40, 2, (2,)))
    config = config_for(tmp_path, plan, plain=True)
    whole, run = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    train(config, whole, ())
    train(config, run, plan, "--nproc", "2", expected=4)
    train(config, run, plan, "--nproc", "3", "--resume", "must", expected=4)
    train(config, run, plan, "--resume", "must")
    expected = batches(whole, 1, 0)
    for attempt, (workers, step) in enumerate(zip((2, 3, 1), starts(run, 3), strict=True)):
        trained = batches(run, workers, attempt)
        assert step is not None and len(trained) > 30
        assert trained == expected[step : step + len(trained)]
    same_but_for_rounding(end_of(whole), end_of(run))
