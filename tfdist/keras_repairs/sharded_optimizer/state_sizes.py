"""Sizes of what an optimizer keeps for each weight, before it is made; and the check that it fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import kind_of
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_container, updating_optimizers
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.plan.memory.model_state import model_states
from tfdist.plan.memory.state_check import SharedMemorySize, Training, check_state_fits
from tfdist.plan.memory.step_sizes import TensorSize, WeightSizes
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.runtime.workers import worker_count
from tfdist.sharding.axis_cut import BlockCut

_MOST_SLOTS = 8
"""No optimizer of Keras keeps as many tensors for a weight: below so many times the weights nothing is looked at."""

_IS_ASKED: AttachedValue[bool] = AttachedValue("is_asked_for_sizes")


def check_memory(optimizer: Any, variables: Sequence[Any]) -> None:
    """Checks that an optimizer that is about to make its state has the memory for it, and the disk.

    Args:
        optimizer: Not built.
        variables: Those that it will train; they are made.

    Raises:
        RunDirError: It keeps its state on a disk that has less.
        UsageError: The weights and the state are more than there is.
    """
    settings = settings_of(optimizer._distribution_strategy)
    disk = None if settings.offload is None else settings.offload.disk
    memory = settings.memory_size
    if is_container(optimizer) or not (disk or _may_be_too_large(variables, memory)):
        return
    weights = weight_sizes(optimizer, variables)
    training = _training(optimizer, weights)
    if disk is not None:
        held = model_states(training.mode, weights, training.kind, training.workers)
        own = held[shares_of(optimizer._distribution_strategy)[1]]
        disk.file.prepare(own.optimizer, f"which this worker's shard of the state of {optimizer.name} takes")
    if memory is not None:
        check_state_fits(training, memory)


def weight_sizes(optimizer: Any, variables: Sequence[Any]) -> list[WeightSizes]:
    """The sizes of weights, and of what an optimizer keeps for each, whatever a worker holds of it."""
    slots = _slots(optimizer, variables)
    return [
        WeightSizes(path, size, size.bytes, kept, _is_table(variable), slices=_slices(variable))
        for variable, kept in zip(variables, slots, strict=True)
        for path, size in ((getattr(variable, "path", variable.name), tensor_size(variable)),)
    ]


def trainings_of(model: Any) -> list[Training]:
    """Returns what each optimizer of a model trains that is built; one of a compiled model."""
    built = [optimizer for optimizer in updating_optimizers(model.optimizer) if optimizer.built]
    return [_training(optimizer, weight_sizes(optimizer, optimizer._trainable_variables)) for optimizer in built]


def is_asked(optimizer: Any) -> bool:
    """Returns whether nothing but sizes is asked of an optimizer."""
    return bool(_IS_ASKED.get(optimizer))


def track_size(optimizer: Any, shape: Sequence[int], dtype: Any) -> keras.KerasTensor:
    """Returns what stands for a variable of an optimizer of which nothing but sizes is asked, and is among its
    variables."""
    made = keras.KerasTensor(tuple(shape), dtype or keras.config.floatx(), name="size")
    optimizer._track_variable(made)
    return made


def _may_be_too_large(variables: Sequence[Any], memory: SharedMemorySize | None) -> bool:
    weights = sum(tensor_size(variable).bytes for variable in variables)
    while memory is not None:
        least = (1 + _MOST_SLOTS) * weights * len(memory.workers) * memory.copies
        if memory.size is not None and least > memory.size:
            return True
        memory = memory.host  # to which state may be offloaded
    return False


def _training(optimizer: Any, weights: Sequence[WeightSizes]) -> Training:
    strategy = optimizer._distribution_strategy
    settings = settings_of(strategy)
    shard, offload = settings.shard, settings.offload
    mode = "none" if shard is None else shard.mode
    return Training(
        type(optimizer).__name__,
        weights,
        _kind(optimizer),
        mode,
        # Those of a mesh of layouts share nothing else without --shard, with which all workers would.
        worker_count(strategy) if mode == "none" else shares_of(strategy)[0],
        "none" if offload is None else offload.choice,
    )


def slots_of(make: Callable[[], Any], variables: Sequence[keras.Variable]) -> list[tuple[TensorSize, ...]]:
    """Returns what an optimizer keeps for each of some variables; it is asked once for those of a shape and type.

    Args:
        make: Makes an optimizer that is not built, in this graph.
        variables: Made in this graph, in which variables have no memory.
    """
    alike: dict[tuple[Any, ...], keras.Variable] = {}
    for variable in variables:
        alike.setdefault(_shape_and_type(variable), variable)
    if len(alike) < len(variables):
        kept = {key: _kept(make(), [variable]) for key, variable in alike.items()}
        found = [kept[_shape_and_type(variable)] for variable in variables]
        if _is_all(found, make, variables):
            return found
    # It goes by the names of variables, as Muon does for embeddings.
    return [_kept(make(), [variable]) for variable in variables]


def _is_all(
    found: Sequence[tuple[TensorSize, ...]], make: Callable[[], Any], variables: Sequence[keras.Variable]
) -> bool:
    """Returns whether an optimizer keeps for variables together what is said of each."""
    together, apart = Counter(_kept(make(), variables)), Counter(size for each in found for size in each)
    # What belongs to no variable, such as a product of Nadam's, is counted once for each that is asked for alone.
    of_none = Counter(_kept(make(), []))
    return apart == together + Counter({size: count * (len(variables) - 1) for size, count in of_none.items()})


def _kept(optimizer: Any, variables: Sequence[keras.Variable]) -> tuple[TensorSize, ...]:
    before = len(optimizer.variables)
    _IS_ASKED.set(optimizer, True)
    optimizer.build(variables)
    return tuple(tensor_size(slot) for slot in optimizer.variables[before:])


def _shape_and_type(variable: keras.Variable) -> tuple[Any, ...]:
    return tuple(variable.shape), variable.dtype


def tensor_size(variable: Any) -> TensorSize:
    """The size of a variable, whatever a worker holds of it."""
    return TensorSize(tuple(variable.shape), tf.as_dtype(variable.dtype).size)


def _slots(optimizer: Any, variables: Sequence[Any]) -> list[tuple[TensorSize, ...]]:
    """Returns what an optimizer will keep for variables; nothing where its code cannot tell."""
    kind = type(optimizer)
    try:
        with tf.init_scope():
            config = optimizer.get_config()
        with tf.Graph().as_default(), tf.name_scope("sized"):
            return slots_of(lambda: kind.from_config(config), [_stand_in(variable) for variable in variables])
    except Exception:  # What an optimizer of the user's own does in its constructor and its build is not known.
        return [()] * len(variables)


def _stand_in(variable: Any) -> keras.Variable:
    made = keras.Variable("zeros", shape=tuple(variable.shape), dtype=tf.as_dtype(variable.dtype).name)
    made._path = getattr(variable, "path", variable.name)
    return made


def _kind(optimizer: Any) -> str | None:
    try:
        return kind_of(optimizer)
    except UnsupportedError:
        return None


def _slices(variable: Any) -> tuple[int, ...]:
    """Along each axis of a weight, in how many slices a layout has cut it; empty where it has not."""
    cut = getattr(shard_of(variable), "cut", None)
    if not isinstance(cut, BlockCut):
        return ()
    parts = dict(zip(cut.axes, cut.parts, strict=True))
    return tuple(parts.get(axis, 1) for axis in range(len(cut.shape)))


def _is_table(variable: Any) -> bool:
    return isinstance(variable, TableVariable)
