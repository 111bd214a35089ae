"""The whole of a model's weights, on workers that want it, where they are saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.sharded_parameters.cut_variable import (
    CutVariable,
    is_cut_variable,
    set_whole,
    storage_of,
)
from tfdist.runtime.collectives.whole_arrays import joined_array


def cut_weights(model: Any) -> list[CutVariable]:
    """The weights of a model of which each worker holds a part, each once; none of what has no weights of its own."""
    # What Keras writes an export by is no model.
    return [variable for variable in getattr(model, "weights", ()) if is_cut_variable(variable)]


@contextlib.contextmanager
def whole_weights(model: Any, *, is_wanted: bool = True) -> Iterator[None]:
    """Inside, the weights of `model` are whole in host memory on workers that want them, to be read by each alone.

    All workers enter it together, outside of functions.

    Args:
        model: Built.
        is_wanted: Whether this worker reads them.
    """
    weights = cut_weights(model)
    try:
        for variable in weights:
            storage = storage_of(variable)
            whole = joined_array(storage.variable.numpy(), storage.cut, storage.strategy)
            if is_wanted:
                with tf.device("CPU:0"):
                    set_whole(variable, tf.constant(whole))
        yield
    finally:
        for variable in weights:
            set_whole(variable, None)
