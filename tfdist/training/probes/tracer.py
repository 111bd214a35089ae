"""Tracer of a run for `tfdist verify --kill`: notes the data of each step, and kills or holds the worker at some.

Holds of a traced run: the chief's worker waits after some steps while `tfdist verify --kill --hosts` acts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint.checkpoint_files import stored
from tfdist.errors import WorkerFailedError
from tfdist.keras_repairs.sharding_policies.full_state import full_state
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_requests import TraceRequest
from tfdist.rundir import RunDir, atomic_files
from tfdist.training.probes.probe_files import TracedEnd, TracedEpoch, TracedStart, TracedSteps, digest, write_line
from tfdist.training.probes.recorder import RecordingComplete
from tfdist.training.probes.step_fingerprints import StepFingerprints, sample
from tfdist.training.probes.step_observer import StepObserverCallback
from tfdist.training.supervision.activity_tracker import ActivityTracker

HOLD_SECONDS = 300.0
_TICK_SECONDS = 0.02


class Tracer:
    """Traces this worker's training. Make it under the strategy, on every worker, before the first step.

    Its methods read variables that belong to all replicas: every worker calls them at the same places.

    Args:
        request: Where to write, how many steps to trace, and when to be killed or held.
        assignment: This worker's assignment.
        activity: Knows how many steps of the run are done.
        strategy: The process's strategy.
    """

    def __init__(
        self, request: TraceRequest, assignment: Assignment, activity: ActivityTracker, strategy: tf.distribute.Strategy
    ) -> None:
        self.fingerprints = StepFingerprints(strategy)
        self._strategy = strategy
        self._activity = activity
        self._last = request.steps
        self._kill = request.kill(assignment.index, assignment.attempt)
        # One of them is enough: the others come no further without the chief's.
        self._holds = StepHolds(request, assignment.attempt) if assignment.index == 0 else None
        self._folder = RunDir(Path(assignment.run_dir)).checkpoints_dir
        self._file = request.steps_file(assignment.index, assignment.attempt).open("w", buffering=1)
        write_line(self._file, TracedStart(assignment.num_workers))
        self._end_file = request.end_file(assignment.index)
        self._furthest = furthest_checkpoint(self._folder)
        self._made = self._before = 0

    def callback(self) -> keras.callbacks.Callback:
        """A new callback that has one `fit` traced."""
        return StepObserverCallback(self)

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Does nothing: the first step says where a run begins."""

    def begin_epoch(self) -> None:
        """Does nothing: steps are counted from the start of the run."""

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Resets what a validation since the last step has added, and notes how many steps are done."""
        self.fingerprints.reset()
        self._before = self._activity.step

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """Writes the steps; ends the process after the last one asked for or at the kill's, and waits at a hold."""
        _, data = self.fingerprints.read()
        step = self._activity.step
        self._count_checkpoints()
        write_line(self._file, TracedSteps(step, step - self._before, data, self._made))
        if self._last is not None and step >= self._last:
            self.end_fit(model)
            raise RecordingComplete
        if self._kill is not None and step >= self._kill.step and self._made:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._holds is not None:
            self._holds.wait(step, self._made)

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Writes the epoch's loss and metrics."""
        values = {name: float(value) for name, value in logs.items() if np.ndim(value) == 0}
        write_line(self._file, TracedEpoch(self._activity.step, epoch, values))

    def end_fit(self, model: keras.Model) -> None:
        """Writes the weights and the optimizer's state."""
        with full_state(model):
            variables = [*model.weights, *model.optimizer.variables]
            elements, _ = sample(variables, 1, self._strategy)
            # `sample` returns them in the order of `variables`.
            digests = {
                path: digest(tf.convert_to_tensor(variable.value).numpy())
                for path, variable in zip(elements, variables, strict=True)
            }
        TracedEnd(digests, elements).write(self._end_file)

    def _count_checkpoints(self) -> None:
        found = furthest_checkpoint(self._folder)
        if found > self._furthest:
            self._furthest = found
            self._made += 1


def furthest_checkpoint(folder: Path) -> tuple[int, int]:
    """The `fit` of a run and the step of it that its furthest complete checkpoint has; zeros without one.

    Args:
        folder: The run's checkpoints: those of its first `fit`, and a folder `fit-N` for each later one.
    """
    folders = {1: folder} | {int(other.name.removeprefix("fit-")): other for other in folder.glob("fit-[0-9]*")}
    found = [(fit, entry.step) for fit, place in folders.items() for entry in stored(place) if entry.is_marked]
    return max(found, default=(0, 0))


@dataclass
class StepHolds:
    """The holds of a request that this attempt has before it.

    Attributes:
        request: Has the steps, and where the files are.
        attempt: The attempt.
        seconds: How long a hold may take.
        sleep: Waits for some seconds.
    """

    request: TraceRequest
    attempt: int
    seconds: float = HOLD_SECONDS
    sleep: Callable[[float], None] = time.sleep
    _next: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        while self._is_left() and self.request.passed_file(self._next).exists():
            self._next += 1

    def wait(self, step: int, saved: int) -> bool:
        """Waits if the run is to be held here; returns whether it was.

        Args:
            step: Steps of the run that are done.
            saved: Checkpoints that the attempt has made.

        Raises:
            WorkerFailedError: Nobody lets the run go on.
        """
        if not self._is_left() or step < self.request.holds[self._next] or not saved:
            return False
        reached = {"step": step, "attempt": self.attempt}
        atomic_files.write_json(self.request.reached_file(self._next), reached, named_by="--keep")
        deadline = time.monotonic() + self.seconds
        while not self.request.passed_file(self._next).exists():
            if time.monotonic() > deadline:
                raise WorkerFailedError(
                    f"This run was held after step {step} by `tfdist verify`, which did not let it go on within "
                    f"{self.seconds:g} s: it has ended, or this machine is overloaded. Start it again."
                )
            self.sleep(_TICK_SECONDS)
        self._next += 1
        return True

    def _is_left(self) -> bool:
        return self._next < len(self.request.holds)
