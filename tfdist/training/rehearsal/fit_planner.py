"""The planner of a script's first `fit`: lets it make a few steps, describes it, and ends the process."""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.launch.rehearsal.rehearsal_request import RehearsalRequest
from tfdist.rundir import atomic_files
from tfdist.runtime.strategy_settings import settings_of
from tfdist.training.probes.step_observer import StepObserverCallback
from tfdist.training.rehearsal.fit_facts import data_of, memory_of, model_of, peak_memory
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.early_end import end_early, fail_early
from tfdist.training.supervision.thread_stacks import main_place


class FitPlanner:
    """Plans the first `fit` of this process. Make it under the strategy, on every worker, before the first step.

    Its methods read what belongs to all replicas: every worker calls them at the same places.

    Args:
        request: How many steps, and where the plan goes.
        assignment: This worker's.
        activity: Knows whether a `fit` is under way.
        strategy: The process's strategy.
        devices: The names of this worker's devices.
        where: On what the run trains, in words.
    """

    def __init__(
        self,
        request: RehearsalRequest,
        assignment: Assignment,
        activity: ActivityTracker,
        strategy: tf.distribute.Strategy,
        devices: Sequence[str],
        where: str,
    ) -> None:
        self._request = request
        self._assignment = assignment
        self._activity = activity
        self._strategy = strategy
        self._devices = devices
        self._where = where
        self._callback = StepObserverCallback(self)
        self._notes = _Notes()
        self._plan: dict[str, Any] = {}
        self._seconds: list[float] = []
        self._samples: list[float] = []
        self._steps, self._most = 0, request.steps
        self._begun = self._counted = 0.0
        logging.getLogger("tfdist").addHandler(self._notes)
        _end_after(request, assignment)

    def callback(self) -> keras.callbacks.Callback:
        """A new callback that has one `fit` planned; `evaluate` and `predict` are not."""
        self._callback = StepObserverCallback(self)
        return self._callback

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Describes the data before the first step."""
        self._plan = {"data": data_of(model)}
        self._most = min(self._request.steps, epoch_steps or self._request.steps)
        self._counted = self._count()

    def begin_epoch(self) -> None:
        """Does nothing: the first epoch has all that is planned."""

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Looks at the clock."""
        self._begun = time.perf_counter()

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """Looks at the clock once the steps are done; ends the process after the last that is tried.

        That is one of the first epoch, as a validation may take long.
        """
        # A device may still compute what Python has asked it for.
        int(keras.ops.convert_to_numpy(model.optimizer.iterations))
        self._seconds.append(time.perf_counter() - self._begun)
        self._steps += model.steps_per_execution or 1
        counted = self._count()
        self._samples.append(counted - self._counted)
        self._counted = counted
        if self._steps >= self._most:
            self._end(model)

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """An epoch that has fewer steps than are to be tried is enough."""

    def end_fit(self, model: keras.Model) -> None:
        """So is a `fit`."""
        self._end(model)

    def _end(self, model: keras.Model) -> None:
        plan = {
            **self._plan,
            "on": self._where,
            "epochs": (self._callback.params or {}).get("epochs"),
            "model": model_of(model),
            "replicas": self._strategy.num_replicas_in_sync,
            "workers": self._assignment.num_workers,
            "memory": {**memory_of(model), "peak": peak_memory(self._devices)},
            "notes": self._notes.lines,
            "seconds": self._seconds,
            "tried": {"steps": self._steps, "samples": self._samples},
        }
        if self._assignment.index == 0:
            atomic_files.write_text(self._request.plan_file, json.dumps(plan), durable=False)
        end_early(self._assignment)

    def _count(self) -> float:
        """The samples of all steps so far."""
        meter = settings_of(self._strategy).meter
        return 0.0 if meter is None else meter.read().samples

    def refuse_other_trainings(self) -> None:
        """Ends the process where a script trains otherwise than by `fit`: it would train to its end.

        Call it once Keras is repaired: it stands around what updates weights then.
        """
        original = keras.optimizers.Optimizer.apply

        @functools.wraps(original)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._activity.snapshot().call != "fit":
                fail_early(_no_fit(main_place()), self._assignment)
            return original(optimizer, *args, **kwargs)

        keras.optimizers.Optimizer.apply = apply


class _Notes(logging.Handler):
    """Keeps what tfdist says of the run."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[dict[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append({"level": record.levelname.lower(), "text": record.getMessage()})


def _no_fit(place: str) -> UsageError:
    return UsageError(
        f"The script trains by a loop of its own, or by train_on_batch, at {place}. Expected a Keras fit: tfdist plan "
        "shows what its first one does. `tfdist train --fast-dev-run` tries such a script to its end."
    )


def _end_after(request: RehearsalRequest, assignment: Assignment) -> None:
    """Bounds the time in which the plan is to be made."""
    seconds = request.plan_seconds
    assert seconds is not None

    def end() -> None:
        fail_early(
            WorkerFailedError(
                f"There is no plan after {seconds:g} s: the script is at {main_place()}. Expected the first steps of "
                "its first fit by then. Give it longer with --timeout, or let it come to fit with less to do."
            ),
            assignment,
        )

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
