"""Starts launchers as processes, and makes sure that nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.processes import processes_with
from tests.helpers.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
_CONFIG = """
model: {{build: tfdist.models.mlp}}
compile: {{optimizer: sgd, loss: mse}}
data: {{batch_size: 8, train: {{format: npz, path: x.npz, split: train}}}}
fit: {{epochs: {epochs}}}
"""


@dataclass
class Launcher:
    """A running launcher.

    Attributes:
        process: Its process.
        folder: Its working directory.
        mark: In the environment of everything that it starts.
    """

    process: subprocess.Popen[str]
    folder: Path
    mark: str
    out: str = ""
    err: str = ""

    def end(self, timeout: float = 150) -> int:
        """Its exit code."""
        self.out, self.err = self.process.communicate(timeout=timeout)
        return self.process.returncode

    def send(self, number: int) -> None:
        self.process.send_signal(number)


@dataclass
class Launchers:
    """Starts launchers below one folder."""

    folder: Path
    running: list[Launcher] = field(default_factory=list)

    def start(self, *, folder: str = ".", prefix: Sequence[str] = (), **options: Any) -> Launcher:
        """Starts `stand_in_launcher.py` with `options` in a subfolder, below a command such as `ip netns`."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.workers.stand_in_launcher", json.dumps(options)],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TFDIST_TEST_MARK": mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(Launcher(process, place, mark))
        return self.running[-1]

    def close(self) -> None:
        """Ends what is left of a test that failed, and fails when a launcher that ended has left something."""
        ended = [launcher for launcher in self.running if launcher.process.poll() is not None]
        left = {launcher.mark: left_behind(launcher.mark) for launcher in ended}
        for launcher in self.running:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.communicate()
            for pid in marked(launcher.mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not any(left.values()), f"processes were left: {left}"


def marked(mark: str) -> list[int]:
    """Processes that a launcher started, and their children."""
    return processes_with(f"TFDIST_TEST_MARK={mark}")


def left_behind(mark: str) -> list[int]:
    """Those that do not end by themselves: what was killed takes until the machine comes to it."""
    with contextlib.suppress(AssertionError):
        until(lambda: not marked(mark), timeout=20)
    return marked(mark)


def write_config(folder: Path, epochs: int) -> str:
    """Makes or replaces a config in a folder, for `Launchers.start`; returns its path."""
    folder.mkdir(exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(_CONFIG.format(epochs=epochs))
    return str(file)


@contextlib.contextmanager
def launchers(folder: Path) -> Iterator[Launchers]:
    started = Launchers(folder)
    try:
        yield started
    finally:
        started.close()
