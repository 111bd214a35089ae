"""The ways in which a layer is called: what a trial has shown of one says nothing of another."""

from __future__ import annotations

import enum
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend

from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples


def way_of_calling(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, trains: bool) -> str:
    """Returns what decides how a layer computes, but for the values of its tensors, as one text.

    The structure of its arguments; shapes, dtypes and masks of tensors; the values of what is no tensor, where it has a
    short one; whether it trains or is frozen; and its own switches, which are attributes that are bools or texts.

    Args:
        layer: The layer.
        args: What it is called with.
        kwargs: Likewise, by name.
        trains: Whether it is called for training.
    """
    given = tf.nest.map_structure(_described, (args, dict(sorted(kwargs.items()))))
    switches = {
        name: value
        for name, value in sorted(vars(layer).items())
        if isinstance(value, bool | str) and not name.startswith("_")
    }
    return str((trains, layer.trainable, switches, given))


def _described(leaf: Any) -> str:
    if isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor):
        mask = backend.get_keras_mask(leaf)
        rows = "rows" if is_of_samples(leaf) else leaf.shape[:1]
        shape = None if leaf.shape.rank is None else (rows, leaf.shape[1:])
        return str((type(leaf).__name__, leaf.dtype.name, shape, None if mask is None else _described(mask)))
    if isinstance(leaf, keras.Variable | tf.Variable | np.ndarray):
        return str((type(leaf).__name__, leaf.dtype, leaf.shape))
    if leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes | enum.Enum | tf.DType):
        return repr(leaf)
    return str(getattr(leaf, "__qualname__", type(leaf).__qualname__))
