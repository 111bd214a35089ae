"""What a launcher shows of several workers, and what their logs keep."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launchers, marked
from tfdist.rundir import RunDir

NOISE = "I0000 00:00:1795252786.569737    4695 port.cc:153] oneDNN custom operations are on."
TIMES = 40


@pytest.mark.parametrize("prefix", [True, False])
def test_what_two_workers_write_at_once_stays_apart(launchers: Launchers, prefix: bool) -> None:
    launcher = launchers.start(nproc=2, args=[f"*:chatter:{TIMES}"], show="all", log_prefix=prefix, run_dir="r")
    assert launcher.end() == 0, launcher.err
    labels = [f"[worker {index}] " if prefix else "" for index in (0, 1)]
    said = [f"{index} says {'x' * 30_000}é" for index in (0, 1)]
    lines = launcher.out.splitlines()
    assert sorted(set(lines)) == [f"{labels[index]}{said[index]}" for index in (0, 1)]
    assert len(lines) == 2 * TIMES
    # Bars are written over: what stands there in the end is shown, whole, and states in between at most.
    bars = [line.rstrip("#") for line in launcher.err.splitlines()]
    assert all(bar.startswith((f"{labels[0]}0: ", f"{labels[1]}1: ")) for bar in bars)
    assert {f"{labels[index]}{index}: {TIMES}/{TIMES}" for index in (0, 1)} <= set(bars)
    for index in (0, 1):
        log = RunDir(launcher.folder / "r").log_file(index, 0).read_bytes().decode()
        assert log.count(said[index] + "\n") == TIMES
        for number in range(TIMES):
            assert f"\r{index}: {number + 1}/{TIMES}{'#' * (number % 3)}" in log


def test_tensorflows_noise_is_in_the_log_alone(launchers: Launchers) -> None:
    args = [f"*:complain:{NOISE}", "*:complain:mine", f"*:print:{NOISE}"]
    launcher = launchers.start(nproc=2, args=args, show="all", run_dir="r")
    assert launcher.end() == 0
    assert launcher.err == "mine\nmine\n"
    assert launcher.out == f"{NOISE}\n{NOISE}\n"  # on stdout it is somebody's own
    for index in (0, 1):
        log = RunDir(launcher.folder / "r").log_file(index, 0).read_text()
        assert sorted(log.splitlines()) == [NOISE, NOISE, "mine"]


def test_verbose_shows_it(launchers: Launchers) -> None:
    launcher = launchers.start(args=[f"*:complain:{NOISE}"], verbose=True)
    assert launcher.end() == 0
    assert launcher.err == f"{NOISE}\n"


def test_a_launcher_that_is_killed_loses_no_unfinished_line(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["*:write:loading...", "*:hang"], run_dir="r")
    log = RunDir(launcher.folder / "r").log_file(1, 0)
    until(lambda: log.exists() and log.read_text() == "loading...")
    launcher.send(signal.SIGKILL)
    assert launcher.end() == -signal.SIGKILL
    assert log.read_text() == "loading..."
    until(lambda: not marked(launcher.mark))


@pytest.mark.slow
@pytest.mark.bound(120)
@pytest.mark.parametrize("verbose", [False, True])
def test_what_tensorflow_really_says_at_its_start(tmp_path: Path, verbose: bool) -> None:
    script = Path(__file__).parent / "scripts" / "saying.py"
    options = ["--quiet", "--nproc", 2, "--run-dir", tmp_path / "r", "--show", "all", "--log-prefix"]
    done = tfdist("train", *options, *(["--verbose"] if verbose else []), script, timeout=100,
                  are_warm=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = [re.sub(r"\] I\d{4} .* saying\.py:\d+\] ", "] ", line) for line in done.stderr.splitlines()]
    own = ("100% ü", "WARNING: Logging before flag parsing goes to stderr.", "said by absl")
    mine = [f"[worker {index}] {said}" for index in (0, 1) for said in own]
    if verbose:
        assert set(mine) < set(shown)
        assert "Started server with target" in done.stderr
    else:
        assert sorted(shown) == mine
    for index in (0, 1):
        log = RunDir(tmp_path / "r").log_file(index, 0).read_bytes().decode()
        assert "Started server with target" in log and "\r90% ü\r100% ü\n" in log
