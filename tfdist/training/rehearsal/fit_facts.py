"""Facts of a `fit` that is under way, for its plan: its model, its data, and what each device holds and sends."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs.data_position import FitData, describe
from tfdist.keras_repairs.inputs.epoch_iterator import whole_batches
from tfdist.keras_repairs.model_checks.described_layouts import findings_of, with_layouts
from tfdist.keras_repairs.model_checks.model_facts import model_facts
from tfdist.keras_repairs.sharded_optimizer.state_sizes import tensor_size, trainings_of, weight_sizes
from tfdist.keras_repairs.sharded_parameters.model_parallel import model_parallel
from tfdist.keras_repairs.sharding.optimizer_policy import updating_optimizers
from tfdist.plan.memory.layout_plan import LayoutPlan, plan_layouts
from tfdist.plan.memory.model_state import fullest_model_state
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding.sharding_mode import ShardMode


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
