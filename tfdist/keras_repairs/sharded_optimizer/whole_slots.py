"""The whole of an optimizer's state, where it is saved, and this worker's part of it, where it is loaded.

A saved optimizer is that of one device, whatever the workers hold: it is loaded by any number of them, in any mode.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.files.arrays.stored_values import read_part, stored_value
from tfdist.keras_repairs.sharded_embeddings.table_variable import tables_of
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_container
from tfdist.keras_repairs.sharded_optimizer.held_parts import cut_optimizers
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import OptimizerParts, Slot, parts_of, updating_optimizers
from tfdist.keras_repairs.sharded_parameters.whole_weights import whole_weights
from tfdist.runtime.collectives.whole_arrays import joined_array
from tfdist.runtime.transport.part_sums import cut_out
from tfdist.sharding.cut import Cut

Function = Callable[..., Any]


def whole_value(optimizer: Any, variable: Any) -> NDArray:
    """The whole of a variable of an optimizer's state. All workers call this together, outside of functions."""
    found = parts_of(optimizer)
    slot = None if found is None else _slot_of(found, variable)
    return np.asarray(variable.numpy()) if slot is None else _joined(slot.variable, _cut_of(slot))


def own_part(found: OptimizerParts, variable: Any, whole: Any) -> Any:
    """This worker's part of a whole value for a variable of an optimizer's state; all of it where it is not cut."""
    slot = _slot_of(found, variable)
    return whole if slot is None else cut_out(tf.convert_to_tensor(whole), _cut_of(slot), found.worker)


def whole_shape(optimizer: Any, variable: Any) -> tuple[int, ...]:
    """The shape that a variable of an optimizer's state has on one device."""
    for each in updating_optimizers(optimizer):
        found = parts_of(each)
        slot = None if found is None else _slot_of(found, variable)
        if slot is not None:
            return slot.shape
    return tuple(variable.shape)


@contextlib.contextmanager
def whole_state(model: Any, *, is_wanted: bool = True) -> Iterator[None]:
    """Inside, weights, sharded embeddings and optimizers' variables of `model` are whole on workers that want to read.

    All workers enter it together, outside of functions. The state is put together in host memory.

    Args:
        model: One of which no worker holds a part alone is left as it is.
        is_wanted: Whether this worker reads it.
    """
    slots = [(slot.variable, _cut_of(slot)) for found in cut_optimizers(model) for slot in found.slots]
    with contextlib.ExitStack() as stack:
        stack.enter_context(whole_weights(model, is_wanted=is_wanted))
        stack.enter_context(whole_tables(model, is_wanted=is_wanted))
        stack.enter_context(_whole(slots, is_wanted=is_wanted))
        yield


def whole_tables(model: Any, *, is_wanted: bool = True) -> contextlib.AbstractContextManager[None]:
    """Inside, sharded embeddings of `model` are whole on workers that want to read; see `whole_state`."""
    return _whole([(table, table.cut) for table in tables_of(model)], is_wanted=is_wanted)


@contextlib.contextmanager
def _whole(parts: Sequence[tuple[Any, Cut]], *, is_wanted: bool) -> Iterator[None]:
    before: list[tuple[Any, Any, Any]] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_put_back, before)
        for variable, cut in parts:
            whole = _joined(variable, cut)
            if is_wanted:
                before.append((variable, variable._value, variable._shape))
                with tf.device("CPU:0"):
                    variable._value, variable._shape = tf.constant(whole), cut.shape
        yield


def _put_back(before: list[tuple[Any, Any, Any]]) -> None:
    for variable, value, shape in before:
        variable._value, variable._shape = value, shape


def restore_accumulated(model: Any, values: Mapping[str, NDArray]) -> None:
    """Gives accumulators their parts of sums that replicas had in part, in a checkpoint of a run that was not cut.

    Args:
        model: Built and compiled, its optimizer loaded.
        values: Those of the checkpoint's replicas, see `training_state`.
    """
    number = 0
    for optimizer in optimizers_of(model):
        found = None if is_container(optimizer) or not optimizer.built else parts_of(optimizer)
        for variable in getattr(optimizer, "_accumulated_gradients", None) or ():
            rows = values.get(f"accumulated/{number}")
            if found is not None and rows is not None:
                variable.assign(own_part(found, variable, rows.sum(axis=0, dtype=rows.dtype)))
            number += 1


def load_own_variables(original: Function) -> Function:
    """Repairs `BaseOptimizer.load_own_variables`: each worker takes its parts."""

    def repaired(self: Any, store: Any) -> None:
        if not _is_cut(self):
            original(self, store)
            return
        if len(store.keys()) != len(self.variables):
            warnings.warn(
                f"Skipping variable loading for optimizer '{self.name}', because it has {len(self.variables)} "
                f"variables whereas the saved optimizer has {len(store.keys())} variables. ",
                stacklevel=2,
            )
            return
        # One after another: together they are as much as all workers hold of it.
        _load(self, (stored_value(store, str(number)) for number in range(len(self.variables))))

    return repaired


def set_weights(original: Function) -> Function:
    """Repairs `BaseOptimizer.set_weights`."""

    def repaired(self: Any, weights: Sequence[Any]) -> None:
        if not _is_cut(self):
            original(self, weights)
        else:
            _load(self, weights)

    return repaired


def _is_cut(optimizer: Any) -> bool:
    """Whether workers hold parts of an optimizer's state, or of those inside of it, whose variables it has as well."""
    return any(parts_of(each) is not None for each in updating_optimizers(optimizer))


def _load(optimizer: Any, values: Iterable[Any]) -> None:
    parts = [found for each in updating_optimizers(optimizer) if (found := parts_of(each)) is not None]
    for variable, value in zip(optimizer.variables, values, strict=False):
        shape = whole_shape(optimizer, variable)
        if tuple(value.shape) != shape:
            raise ValueError(
                f"Optimizer variable {variable.path} has shape {shape} not compatible with provided weight shape "
                f"{tuple(value.shape)}."
            )
        held = ((slot, found.worker) for found in parts if (slot := _slot_of(found, variable)) is not None)
        slot, worker = next(held, (None, 0))
        if slot is None:
            variable.assign(np.asarray(value))
        else:
            variable.assign(read_part(value, _cut_of(slot), worker))


def _slot_of(found: OptimizerParts, variable: Any) -> Slot | None:
    return next((slot for slot in found.slots if slot.variable is variable), None)


def _cut_of(slot: Slot) -> Cut:
    assert slot.cut is not None, "parts_of has seen to it"
    return slot.cut


def _joined(variable: Any, cut: Cut) -> NDArray:
    """The whole of a variable of which each worker has a part, on all of them."""
    return joined_array(variable._value.numpy(), cut, tf.distribute.get_strategy())
