"""A worker that trains nothing, for `tfdist verify --kill --hosts`: it traces, saves, resumes and stops as one does.

The chief leads: its one weight depends on every step that it has taken, and a little on how many workers there are. The
others go with it, by a file. The script's argument `forgets` makes a run that resumes with another weight, and `skips`
one that leaves a step out.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.launch.environment import Assignment
from tfdist.launch.worker.launcher_channel import LauncherChannel
from tfdist.launch.worker_requests import TraceRequest
from tfdist.rundir import State, WorkerState
from tfdist.training.probes.probe_files import TracedEnd, TracedEpoch, TracedStart, TracedSteps, digest, write_line
from tfdist.training.probes.tracer import StepHolds

LAST, OF_EPOCH, EVERY = 80, 10, 4
STEP_SECONDS = 0.01
BROKEN_SECONDS = 1.0


class TracedWorker:
    """Plays one worker."""

    def __init__(self, assignment: Assignment) -> None:
        assert assignment.channel_fd is not None and assignment.trace is not None
        self.assignment, self.trace = assignment, assignment.trace
        self.step = 0
        self._lock = threading.Lock()
        self._held, self._after, self._code = False, LAST + 1, 0
        self.channel = LauncherChannel(assignment.channel_fd, handlers={"hold": self._hold, "stop": self._stop})
        self.channel.watch()

    def lead(self) -> int:
        """The chief's part; returns the exit code."""
        checkpoint = Checkpoint(Path(self.assignment.run_dir))
        self.step, weight = checkpoint.load()
        if self.step and "forgets" in self.assignment.args:
            weight = 0.0
        if self.step and "skips" in self.assignment.args:
            self.step += 1
        holds, saved = StepHolds(self.trace, self.assignment.attempt), 0
        with self.trace.steps_file(0, self.assignment.attempt).open("w", buffering=1) as file:
            write_line(file, TracedStart(self.assignment.num_workers))
            while self.step < LAST:
                if not self._may_step():
                    checkpoint.save(self.step, weight)
                    return self._code
                weight = 0.99 * weight + self.step * (1 + 1e-9 * self.assignment.num_workers)
                self._tell(weight)
                write_line(file, TracedSteps(self.step, 1, float(self.step), saved))
                if holds.wait(self.step, saved):
                    # As the next step, which waits for a worker that is lost, or is not begun any more.
                    time.sleep(BROKEN_SECONDS)
                if self.step % EVERY == 0:
                    checkpoint.save(self.step, weight)
                    saved += 1
                if self.step % OF_EPOCH == 0:
                    write_line(file, TracedEpoch(self.step, self.step // OF_EPOCH - 1, {"loss": weight}))
                time.sleep(STEP_SECONDS)
        leave_end(self.trace, 0, weight)
        return 0

    def follow(self) -> int:
        """The part of any other worker."""
        index = self.assignment.index
        with self.trace.steps_file(index, self.assignment.attempt).open("w", buffering=1) as file:
            write_line(file, TracedStart(self.assignment.num_workers))
        while self.step < self._after:
            told = self._news()
            if told is None:
                time.sleep(STEP_SECONDS)
                continue
            self.step = told["step"]
            self._beat()
            if self.step == LAST:
                leave_end(self.trace, index, told["weight"])
                return 0
        return self._code

    def _may_step(self) -> bool:
        """Takes the next step, once that is allowed; False where the worker is to stop."""
        while True:
            with self._lock:
                if self.step >= self._after:
                    return False
                if not self._held:
                    self.step += 1
                    return True
            time.sleep(STEP_SECONDS)

    @property
    def _place(self) -> Path:
        return Path(self.trace.directory) / f"place-{self.assignment.attempt}"

    def _tell(self, weight: float) -> None:
        written = self._place.with_suffix(".new")
        written.write_text(json.dumps({"step": self.step, "weight": weight}))
        written.rename(self._place)
        self._beat()

    def _news(self) -> dict[str, Any] | None:
        if not self._place.exists():
            return None
        told: dict[str, Any] = json.loads(self._place.read_text())
        return told if told["step"] > self.step else None

    def _beat(self) -> None:
        now = time.time()
        state = WorkerState(
            index=self.assignment.index,
            address=self.assignment.address,
            host=socket.gethostname(),
            pid=os.getpid(),
            attempt=self.assignment.attempt,
            state=State.STEP,
            epoch=0,
            step=self.step,
            time=now,
            moves=self.step,
            moved=now,
        )
        self.channel.beat(state.to_dict())

    def _hold(self, _: Any) -> dict[str, Any]:
        with self._lock:
            self._held = True
            return {"begun": self.step}

    def _stop(self, told: Any) -> None:
        with self._lock:
            self._after, self._code, self._held = told["after"], told["code"], False


class Checkpoint:
    """The chief's only one."""

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "checkpoint"

    def load(self) -> tuple[int, float]:
        if not self._file.exists():
            return 0, 0.0
        step, weight = json.loads(self._file.read_text())
        return step, weight

    def save(self, step: int, weight: float) -> None:
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps([step, weight]))
        written.rename(self._file)


def leave_end(trace: TraceRequest, worker: int, weight: float) -> None:
    array = np.float64([weight])
    TracedEnd({"weight": digest(array)}, {"weight": array}).write(trace.end_file(worker))


def main() -> None:
    assignment = Assignment.from_environ()
    assert assignment is not None
    if "fails" in assignment.args:
        sys.exit("this training does not work")
    worker = TracedWorker(assignment)
    code = worker.follow() if assignment.index else worker.lead()
    worker.channel.finished(code, timeout=30)
    sys.exit(code)


if __name__ == "__main__":
    main()
