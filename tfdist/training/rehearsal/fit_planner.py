"""The planner of a script's first `fit`: lets it make a few steps, describes it, and ends the process."""

from __future__ import annotations

import functools
import json
import logging
import resource
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import keras
import tensorflow as tf

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs.data_position import FitData, describe
from tfdist.keras_repairs.inputs.epoch_iterator import whole_batches
from tfdist.keras_repairs.model_checks.described_layouts import findings_of, with_layouts
from tfdist.keras_repairs.model_checks.model_facts import model_facts
from tfdist.keras_repairs.sharded_optimizer.state_sizes import tensor_size, trainings_of, weight_sizes
from tfdist.keras_repairs.sharded_parameters.model_parallel import model_parallel
from tfdist.keras_repairs.sharding_policies.optimizer_policy import updating_optimizers
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_requests import RehearsalRequest
from tfdist.plan.memory.layout_plan import LayoutPlan, plan_layouts
from tfdist.plan.memory.model_state import fullest_model_state
from tfdist.rundir import atomic_files
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding.sharding_mode import ShardMode
from tfdist.training.probes.step_observer import StepObserverCallback
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.error_report import end_early, fail_early
from tfdist.training.supervision.thread_stacks import main_place


def data_of(model: keras.Model) -> dict[str, Any]:
    """Returns what the `fit` that begins is given, in JSON's types; call it once, before the first step."""
    iterator = fit_state(model).take_iterator()
    found = FitData("data of the script's own", None) if iterator is None else describe(iterator)
    batch = found.batch_size or (0 if iterator is None else _static_rows(iterator))
    return {"kind": found.kind, "steps": found.steps, "batch_size": batch, "samples": found.samples}


def model_of(model: keras.Model) -> dict[str, Any]:
    """The model and its optimizer, in JSON's types."""
    trained = [_count(variable) for variable in model.trainable_variables]
    frozen = [_count(variable) for variable in model.non_trainable_variables]
    return {
        "name": model.name,
        "class": type(model).__qualname__,
        "parameters": sum(trained) + sum(frozen),
        "trainable_parameters": sum(trained),
        "optimizer": type(model.optimizer).__name__,
        **model_facts(model),
    }


def memory_of(model: keras.Model) -> dict[str, Any]:
    """Bytes of weights, gradients and the optimizer's state on a device, in JSON's types.

    In the run's own mode of `--shard`, and between several workers in each of them; where weights are cut by layouts,
    without and with these.
    """
    layouts = layouts_of(model)
    trainings = trainings_of(model)
    first = trainings[0] if trainings else None
    sizes = [size for training in trainings for size in training.weights]
    kind, mode, workers = (None, "none", 1) if first is None else (first.kind, first.mode, first.workers)
    modes = get_args(ShardMode) if workers > 1 and kind is not None and layouts is None else (mode,)
    trained = {size.path for size in sizes}
    held = {name: fullest_model_state(name, sizes, kind, workers) for name in modes}
    if layouts is not None:
        alone = [replace(size, slices=()) for size in sizes]
        held = {"none": fullest_model_state("none", alone, kind, 1), "tensor": layouts.state}
    return {
        "mode": mode if layouts is None else "tensor",
        "modes": {name: asdict(state) for name, state in held.items()},
        "layouts": None if layouts is None else layouts.to_json(),
        "gradients": sum(size.gradient for size in sizes),
        "other": sum(tensor_size(one).bytes for one in model.variables if one.path not in trained),
    }


def layouts_of(model: keras.Model) -> LayoutPlan | None:
    """The layouts of a model's weights; None where none is cut by one."""
    distribution = model_parallel()
    if distribution is None:
        return None
    weights = [
        size
        for optimizer in updating_optimizers(model.optimizer)
        if optimizer.built
        for variables in (optimizer._trainable_variables,)
        for size in with_layouts(model, weight_sizes(optimizer, variables), variables)
    ]
    mesh = distribution.device_mesh
    shard = settings_of(model.distribute_strategy).shard
    mode = "none" if shard is None else shard.mode
    return plan_layouts(weights, mesh.devices.size, mesh.shape[-1], findings_of(model), mode)


def peak_memory(devices: Sequence[str]) -> dict[str, Any]:
    """Bytes at most that the fullest device has held so far, in JSON's types: of CPUs those of this process."""
    peaks = []
    for device in devices:
        if "GPU" in device:
            info = tf.config.experimental.get_memory_info(device.removeprefix("/device:"))
            peaks.append(int(info["peak"]))
    if peaks:
        return {"of": "GPU", "bytes": max(peaks)}
    return {"of": "process", "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}


def _count(variable: Any) -> int:
    size = tensor_size(variable)
    return size.bytes // size.itemsize if size.itemsize else 0


def _static_rows(iterator: Any) -> int:
    """The rows of the batches of a dataset, where all of them have as many; else 0."""
    spec = getattr(whole_batches(iterator), "element_spec", None)
    leaves = [leaf for leaf in tf.nest.flatten(spec) if isinstance(leaf, tf.TensorSpec)]
    first = leaves[0].shape if leaves else tf.TensorShape(None)
    return int(first[0]) if first.rank and first[0] else 0


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
