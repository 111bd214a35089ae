"""A run whose worker is killed within an epoch, and that goes on, ends as the one that was never touched."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.resumable_model import EPOCHS, STEPS, End, end_of, write_config
from tests.helpers.waiting import until
from tests.helpers.warm_workers import warm
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.rundir import RunDir, WorkerState

WAYS = {"one": [], "logical": ["--logical-devices", "2"], "nproc": ["--nproc", "2"]}
KILLED = {"one": 0, "logical": 0, "nproc": 1}
SECONDS = 100


def train(config: Path, run: RunDir, *options: str) -> subprocess.CompletedProcess[str]:
    return tfdist("train", config, *options, "--run-dir", run.path, timeout=SECONDS)


def begin(config: Path, run: RunDir, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tfdist", "train", str(config), *options, "--run-dir", str(run.path)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environ = warm(os.environ)
    return subprocess.Popen(command, cwd=ROOT, env=environ, text=True, start_new_session=True, **quiet)  # type: ignore[call-overload]


@contextlib.contextmanager
def both(start: Callable[[int], subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Two launchers, which are ended at the end."""
    processes: list[subprocess.Popen[str]] = []
    try:
        processes += [start(0)]
        processes += [start(1)]
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_checkpoint(run: RunDir, after: int) -> None:
    until(lambda: any(entry.step > after and entry.is_marked for entry in stored(run.checkpoints_dir)), SECONDS)


def kill(run: RunDir, worker: int) -> None:
    state = WorkerState.read(run.state_file(worker))
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)


def last_step(run: RunDir) -> int:
    assert not run.model_file.exists()
    return next(entry.step for entry in stored(run.checkpoints_dir) if entry.is_marked)


def train_and_kill(config: Path, run: RunDir, worker: int, after: int, *options: str) -> int:
    """Kills a worker once a checkpoint of more than `after` steps is there; returns the step of the last one."""
    process = begin(config, run, *options)
    try:
        wait_for_checkpoint(run, after)
        kill(run, worker)
        assert process.wait(SECONDS) == 4
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return last_step(run)


def same(one: End, other: End) -> None:
    assert one.history == other.history
    assert one.lines == other.lines
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert value.tobytes() == other.state[name].tobytes(), name
    assert [weight.tobytes() for weight in one.model] == [weight.tobytes() for weight in other.model]


def same_but_for_rounding(one: End, other: End) -> None:
    for name, values in one.history.items():
        assert other.history[name] == pytest.approx(values, rel=1e-4, abs=1e-5), name
    for weight, received in zip(one.model, other.model, strict=True):
        np.testing.assert_allclose(received, weight, rtol=1e-3, atol=1e-5)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, End]]:
    """By way, the config and what a run that was never touched has left."""

    @functools.cache
    def reference(way: str) -> tuple[Path, End]:
        folder = tmp_path_factory.mktemp(way)
        config, run = write_config(folder, seed=3), RunDir(folder / "whole")
        done = train(config, run, *WAYS[way])
        assert done.returncode == 0, done.stderr
        assert len(end_of(run).lines) == EPOCHS
        return config, end_of(run)

    return reference


@pytest.mark.bound(500)
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_killed_run_ends_as_the_one_that_was_not(
    way: str, references: Callable[[str], tuple[Path, End]], tmp_path: Path
) -> None:
    config, whole = references(way)
    run = RunDir(tmp_path / "killed")
    last = train_and_kill(config, run, KILLED[way], STEPS, *WAYS[way])
    assert STEPS < last < STEPS * EPOCHS
    resumed = train(config, run, *WAYS[way], "--resume", "must")
    assert resumed.returncode == 0, resumed.stderr
    assert f"resumes after step {last}" in resumed.stdout
    same(whole, end_of(run))
    state = WorkerState.read(run.state_file(0))
    assert state is not None and (state.step, state.attempt) == (STEPS * EPOCHS, 1)


@pytest.mark.slow
@pytest.mark.bound(500)
def test_two_machines_of_which_one_has_the_checkpoints(
    references: Callable[[str], tuple[Path, End]], tmp_path: Path, two_ports: tuple[int, int]
) -> None:
    """Two launchers with run directories of their own, killed within an epoch, twice in a row."""
    config, whole = references("nproc")
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    runs = [RunDir(tmp_path / f"machine-{index}") for index in range(2)]

    def start(index: int) -> subprocess.Popen[str]:
        return begin(config, runs[index], "--workers", workers, "--index", str(index), "--resume", "auto")

    steps = [0]
    for killed in (1, 0):
        with both(start) as (chief, other):
            wait_for_checkpoint(runs[0], steps[-1] + STEPS // 2)
            kill(runs[killed], killed)
            codes = [process.wait(SECONDS) for process in (chief, other)]
        assert codes == [4, 4]
        steps.append(last_step(runs[0]))
    assert 0 < steps[1] < steps[2] < STEPS * EPOCHS
    with both(start) as (chief, other):
        assert [process.wait(SECONDS) for process in (chief, other)] == [0, 0]
    same(whole, end_of(runs[0]))
    assert not runs[1].checkpoints_dir.exists()
    again = train(config, runs[0], "--resume", "auto")
    assert again.returncode == 0 and "was done before" in again.stdout
    same(whole, end_of(runs[0]))


@pytest.mark.slow
@pytest.mark.bound(500)
def test_on_another_number_of_workers_it_ends_the_same_but_for_rounding(tmp_path: Path) -> None:
    config = write_config(tmp_path, model={"build": "tests.helpers.resumable_model.model", "args": {"plain": True}})
    whole, killed = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    first = train_and_kill(config, killed, 1, STEPS, "--nproc", "2")
    second = train_and_kill(config, killed, 0, first + 1, "--logical-devices", "3", "--resume", "auto")
    assert STEPS < first < second
    resumed = train(config, killed, "--resume", "must")
    assert resumed.returncode == 0, resumed.stderr
    assert "which was on 3 replicas" in resumed.stdout
    # The seed that the first start has drawn.
    done = train(killed.config_file, whole)
    assert done.returncode == 0, done.stderr
    same_but_for_rounding(end_of(whole), end_of(killed))
