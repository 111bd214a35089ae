"""Cost of a killed worker: `python -m benchmarks.kill_cost [MODEL] [--every N] [--kills 3]`.

Two workers of this machine train with a checkpoint every N steps. Worker 1 is killed with SIGKILL again and again, and
all workers restart. The run's ledger splits the time from the notice of a kill to the first step after it; how long the
notice took is measured here.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fit import BATCH
from tfdist.rundir import RunDir, WorkerState
from tfdist.text import format_bytes, table

_EVERY = {"mlp": 1000, "cnn": 50, "wide": 20}
_WAIT_SECONDS = 300.0
_POLL_SECONDS = 0.02
_VICTIM = 1


@dataclass(frozen=True)
class Kill:
    """What one kill cost.

    Attributes:
        seconds: Part -> seconds, in the order in which they come; `notice` is the first.
        again: Steps that had to be done again.
    """

    seconds: dict[str, float]
    again: int

    @property
    def whole(self) -> float:
        """Seconds from the kill to the first step after it."""
        return sum(self.seconds.values())


def main() -> None:
    """Parses the command line, measures, prints; with --train it is a worker's script."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_cost", description="What a kill costs.")
    parser.add_argument("model", nargs="?", default="wide", choices=sorted(_EVERY))
    parser.add_argument("--every", type=int, help="steps between two checkpoints")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    every = options.every or _EVERY[options.model]
    if options.train:
        train(options.model, every)
        return
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-", dir=".") as folder:
        run = RunDir(Path(folder) / "run")
        kills = measure(options.model, every, options.kills, run)
        size = sum(file.stat().st_size for file in _latest(run).iterdir())
    print(render(options.model, every, kills, size), flush=True)


def train(name: str, every: int) -> None:
    """Trains until it is stopped, in one epoch, with checkpoints."""
    import tensorflow as tf

    from benchmarks import models
    from tfdist.training.api import callbacks

    model = models.build(name)
    batches = tf.data.Dataset.from_tensor_slices(models.data(name, 8 * BATCH)).batch(BATCH, drop_remainder=True)
    keeping = callbacks(every_steps=every, every_minutes=None, keep=2)
    model.fit(batches.repeat(), steps_per_epoch=10**7, verbose=0, callbacks=keeping)


@contextlib.contextmanager
def training(name: str, every: int, restarts: int, run: RunDir) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `tfdist train` on two workers; gives the launcher's process and ends it."""
    command = [sys.executable, "-m", "tfdist", "train", "--nproc", "2", "--max-restarts", str(restarts)]
    command += ["--run-dir", str(run), "-m", "benchmarks.kill_cost", name, "--every", str(every), "--train"]
    quiet = subprocess.DEVNULL
    launcher = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield launcher
    finally:
        # Workers end with their launcher.
        launcher.kill()
        launcher.wait()


Start = Callable[[str, int, int, RunDir], contextlib.AbstractContextManager[subprocess.Popen[bytes]]]


def measure(name: str, every: int, number: int, run: RunDir, start: Start = training) -> list[Kill]:
    """Kills a run several times, each time after a checkpoint, and then stops it.

    Args:
        name: The model's.
        every: Steps between two checkpoints.
        number: Of kills.
        run: The run directory.
        start: Starts the run; `training` by default.
    """
    killed: list[float] = []
    with start(name, every, number, run) as launcher:
        for attempt in range(number):
            _wait(launcher, functools.partial(_has_saved, run, attempt, every))
            state = WorkerState.read(run.state_file(_VICTIM))
            assert state is not None
            killed.append(time.time())
            os.kill(state.pid, signal.SIGKILL)
        _wait(launcher, lambda: len(_ledger(run)["recoveries"]) == number)
    account = _ledger(run)
    noticed = {attempt["attempt"]: attempt["noticed"] for attempt in account["attempts"]}
    return [
        Kill({"notice": noticed[number] - moment, **recovery["seconds"]}, recovery["replayed_steps"])
        for number, (moment, recovery) in enumerate(zip(killed, account["recoveries"], strict=True))
    ]


def render(name: str, every: int, kills: list[Kill], size: int) -> str:
    """A table with a row for each part, and the medians in its last column."""
    rows = [("seconds", *(f"kill {number + 1}" for number in range(len(kills))), "median")]
    rows += [_row(part, [kill.seconds[part] for kill in kills]) for part in kills[0].seconds]
    rows += [_row("all", [kill.whole for kill in kills])]
    title = f"{name}, two workers, a checkpoint of {format_bytes(size)} every {every} steps, worker {_VICTIM} killed"
    again = f"steps done again: {', '.join(str(kill.again) for kill in kills)}"
    return "\n".join([title, *table(rows, "l" + "r" * (len(kills) + 1)), again])


def _row(part: str, values: Sequence[float]) -> tuple[str, ...]:
    return part, *(f"{value:.2f}" for value in (*values, statistics.median(values)))


def _has_saved(run: RunDir, attempt: int, every: int) -> bool:
    """Whether an attempt has trained, and is half-way between two checkpoints of its own."""
    states = [WorkerState.read(run.state_file(index)) for index in (0, _VICTIM)]
    if any(state is None or state.attempt != attempt for state in states):
        return False
    steps = min(state.step for state in states if state is not None)
    begun = [line["total"] for line in map(json.loads, _lines(run)) if line["attempt"] == attempt]
    return steps > (begun[0] if begun else 0) + 1.5 * every


def _lines(run: RunDir) -> list[str]:
    return run.resumes_file.read_text().splitlines() if run.resumes_file.exists() else []


def _ledger(run: RunDir) -> Any:
    command = [sys.executable, "-m", "tfdist", "ledger", str(run), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def _latest(run: RunDir) -> Path:
    return max(run.checkpoints_dir.glob("step-*"))


def _wait(launcher: subprocess.Popen[bytes], come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not come():
        if launcher.poll() is not None:
            raise RuntimeError(f"The run ended by itself, with exit code {launcher.returncode}.")
        if time.monotonic() > deadline:
            raise TimeoutError(f"The run made no progress within {_WAIT_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
