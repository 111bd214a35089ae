"""The tracer of a run for `tfdist verify --kill`: what it trains on, step by step, and the SIGKILL at its step."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint.files import stored
from tfdist.launch.environment import Assignment
from tfdist.launch.tracing import TraceRequest
from tfdist.rundir import RunDir
from tfdist.training.heartbeat import Heartbeat
from tfdist.training.observing import Observer
from tfdist.training.recording import Recorded
from tfdist.training.sampling import sample
from tfdist.training.stepping import Stepping
from tfdist.training.trace_file import End, Epoch, Steps, digest, write_line


class Tracer:
    """Traces this worker's training. Make it under the strategy, on every worker, before the first step.

    Its methods read variables that belong to all replicas: every worker calls them at the same places.

    Args:
        request: Where to, for how long, and when to be killed.
        assignment: This worker's.
        heartbeat: Knows how many steps of the run are done.
        strategy: The process's strategy.
    """

    def __init__(
        self, request: TraceRequest, assignment: Assignment, heartbeat: Heartbeat, strategy: tf.distribute.Strategy
    ) -> None:
        self.observer = Observer(strategy)
        self._strategy = strategy
        self._heartbeat = heartbeat
        self._last = request.steps
        self._kill = request.kill(assignment.index, assignment.attempt)
        self._checkpoints = RunDir(assignment.run_dir).checkpoints_dir
        self._file = request.steps_file(assignment.index, assignment.attempt).open("w", buffering=1)
        self._end_file = request.end_file(assignment.index)
        self._begun: int | None = None
        self._before = 0

    def callback(self) -> keras.callbacks.Callback:
        """A new callback that tells this tracer of one `fit`."""
        return Stepping(self)

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Nothing: where a run begins, its first step tells."""

    def begin_epoch(self) -> None:
        """Nothing: steps are counted from the begin of the run."""

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Forgets what a validation since the last step has left, and notes how many steps are done."""
        self.observer.reset()
        self._before = self._heartbeat.state.step
        if self._begun is None:
            self._begun = self._before

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """Writes the steps down; ends the process after the last one asked for, or as the kill says."""
        _, data = self.observer.read()
        step, saved = self._heartbeat.state.step, self._saved()
        write_line(self._file, Steps(step, step - self._before, data, saved))
        if self._last is not None and step >= self._last:
            self.end_fit(model)
            raise Recorded
        kill = self._kill
        if kill is not None and step >= kill.step and self._begun is not None and saved > self._begun:
            os.kill(os.getpid(), signal.SIGKILL)

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Writes down what the epoch came to."""
        values = {name: float(value) for name, value in logs.items() if np.ndim(value) == 0}
        write_line(self._file, Epoch(self._heartbeat.state.step, epoch, values))

    def end_fit(self, model: keras.Model) -> None:
        """Writes down the weights and the optimizer's state."""
        variables = [*model.weights, *model.optimizer.variables]
        elements, _ = sample(variables, 1, self._strategy)
        # `sample` names them in the order in which it got them.
        digests = {
            path: digest(tf.convert_to_tensor(variable.value).numpy())
            for path, variable in zip(elements, variables, strict=True)
        }
        End(digests, elements).write(self._end_file)

    def _saved(self) -> int:
        return next((checkpoint.step for checkpoint in stored(self._checkpoints) if checkpoint.is_marked), 0)
