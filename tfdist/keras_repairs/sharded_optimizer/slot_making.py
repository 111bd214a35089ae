"""Repairs of how an optimizer makes its state beside the model's variables, and finds it again.

What belongs to a variable is made for this worker's part of it, never whole, and as a variable of this worker alone.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer

from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import Slot, begin, parts_while_built
from tfdist.keras_repairs.sharded_optimizer.state_sizes import check_memory, is_asked, track_size
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable
from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.offload.offloading import on_host
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding.cut import Cut

Function = Callable[..., Any]

_cut: contextvars.ContextVar[Cut | None] = contextvars.ContextVar("tfdist_cut_of_slot", default=None)


def build(original: Function) -> Function:
    """Repairs `BaseOptimizer.build`, which the `build` of every optimizer calls first."""

    def repaired(self: Any, variables: Any) -> None:
        if not is_asked():
            check_memory(self, list(variables))
            begin(self, list(variables))
        original(self, variables)

    return repaired


def add_variable(original: Function) -> Function:
    """Repairs `BaseOptimizer.add_variable`."""

    def repaired(self: Any, shape: Any, initializer: Any = "zeros", *args: Any, **kwargs: Any) -> Any:
        if is_asked():
            return track_size(self, shape, args[0] if args else kwargs.get("dtype"))
        parts = parts_while_built(self)
        if parts is None or (parts.kind == "elements" and _cut.get() is None):
            return original(self, shape, initializer, *args, **kwargs)
        cut = _cut.get()
        offload = settings_of(self._distribution_strategy).offload
        with tf.init_scope(), local_variables(), on_host(offload):
            # To which variable it belongs may be known later; then it is made where it is held.
            variable = original(self, (0,) if cut is None else shape, initializer, *args, **kwargs)
            if offload is not None:
                offload.keep(variable)
        whole = tuple(shape) if cut is None else cut.shape
        parts.slots.append(Slot(variable, cut, whole, keras.initializers.get(initializer)))
        return variable

    return repaired


def add_variable_from_reference(original: Function) -> Function:
    """Repairs `TFOptimizer.add_variable_from_reference`."""

    def repaired(self: Any, reference_variable: Any, name: Any = None, initializer: Any = "zeros") -> Any:
        parts = parts_while_built(self)
        part = None if parts is None else parts.parts.get(self._var_key(reference_variable))
        if part is None:
            return original(self, reference_variable, name, initializer)
        with setting(_cut, part.cut):
            return BaseOptimizer.add_variable_from_reference(self, part.variable, name, initializer)

    return repaired


def var_key(original: Function) -> Function:
    """Repairs `TFOptimizer._var_key`: a part has the key of its whole, by which the state is found."""

    def repaired(self: Any, variable: Any) -> Any:
        # The value of a variable that is cut takes all workers to read.
        is_part = is_cut_variable(variable) or isinstance(variable, TableVariable)
        key = original(self, variable._value if is_part else variable)
        parts = parts_while_built(self)
        return key if parts is None else parts.keys.get(key, key)

    return repaired
