"""The logs of batches within an epoch, over all replicas, for callbacks and progress bars that are given them.

A step returns results of metrics that are its replica's own, which costs no collective. Where somebody looks at them,
all workers exchange the state of the metrics after an execution, at once, and the logs are what one replica's would be.
For a callback that only shows some of them, as the progress of a run from a config does, that is about once a second.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.keras_repairs.loop.fit_listeners import TrainerMethod
from tfdist.keras_repairs.loop.step_logs import over_replicas
from tfdist.runtime.collectives.decisions import all_gather, all_reduce

Function = Callable[..., Any]

PERIOD_SECONDS = 1.0
"""Roughly how many seconds lie between two periodic readings of the logs."""

READING_SHARE = 0.02
"""The share of the time that periodic readings may take; where each takes long they are rarer."""


def sharing_logs(function: Function, model: keras.Model, call: TrainerMethod) -> Function:
    """The function that runs steps on several replicas, with logs over all of them where some worker looks at them.

    Args:
        function: Returns the logs of the last step that it has executed: the same object until it executes another.
        model: The model, whose metrics are as the steps have left them.
        call: The method whose steps these are.
    """
    state, periodic = fit_state(model), _PeriodicReading(model.distribute_strategy)
    executed: Any = None
    logs: Any = None

    def execute(iterator: Any) -> Any:
        nonlocal executed, logs
        outputs = function(iterator)
        if outputs is not executed:
            executed = logs = outputs
            if state.reads_logs(call):
                logs = state.periodic_logs = _over_replicas(model, outputs)
            elif call == "fit" and state.reads_logs_periodically and periodic.is_due(at_end=_ends_epoch(iterator)):
                with periodic.reading():
                    state.periodic_logs = _over_replicas(model, outputs)
        return logs

    return execute


def _ends_epoch(iterator: Any) -> bool:
    return isinstance(iterator, BatchIterator) and iterator.ends_epoch


class _PeriodicReading:
    """Says after which executions the logs are read where that is periodic: the same on all workers.

    Args:
        strategy: Theirs.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._begun = time.perf_counter()
        self._executions, self._until_due = 0, 1
        self._reading = 0.0

    def is_due(self, *, at_end: bool = False) -> bool:
        """Returns whether the logs are read after the execution that has just ended; all workers call this after each.

        Args:
            at_end: Whether it ends an epoch, after which they are read anyway.
        """
        self._executions += 1
        if self._executions < self._until_due and not at_end:
            return False
        own = np.array([time.perf_counter() - self._begun, self._reading])
        seconds, reading = map(float, all_reduce(own, "max", self._strategy))
        fitting = int(self._executions * max(PERIOD_SECONDS, reading / READING_SHARE) / max(seconds, 1e-9))
        # The first executions say little: they compile, or run fewer steps than later ones.
        self._until_due = max(1, min(fitting, 2 * max(self._executions, self._until_due)))
        return True

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Around a reading, which does not count as time of executions; the longer it takes the rarer are the next."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._begun, self._executions = time.perf_counter(), 0
            self._reading = self._begun - begun


def _over_replicas(model: keras.Model, logs: Any) -> Any:
    variables = [variable for metric in model.metrics for variable in metric.variables if adds_up(variable)]
    totals = _totals(variables, model.distribute_strategy)
    with keras.StatelessScope(state_mapping=list(zip(variables, totals, strict=True))):
        return over_replicas(model, logs)


def _totals(variables: Sequence[keras.Variable], strategy: tf.distribute.Strategy) -> list[NDArray]:
    """The sum of each variable over all replicas; all workers call this together."""
    own = [_sum([part.numpy() for part in variable._value.values]) for variable in variables]
    workers = all_gather(np.frombuffer(b"".join(array.tobytes() for array in own), np.uint8), strategy)
    ends = np.cumsum([array.nbytes for array in own], dtype=int)
    parts = np.split(workers, ends[:-1], axis=1) if own else []
    return [
        _sum([np.frombuffer(worker.tobytes(), array.dtype).reshape(array.shape) for worker in part])
        for part, array in zip(parts, own, strict=True)
    ]


def _sum(parts: Sequence[NDArray]) -> NDArray:
    return np.sum(parts, axis=0, dtype=parts[0].dtype)
