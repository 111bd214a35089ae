"""Repairs of the functions of `keras.random`, on which Keras's random layers stand.

They tell which size of a draw is that of the batch; `stateless_draws` draws it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.traced_calls import is_noting
from tfdist.keras_repairs.draw_slices import draw_scope
from tfdist.keras_repairs.draw_slices.draw_slice import Size
from tfdist.keras_repairs.random_numbers.draw_sizes import BatchSize, note_draw, sizes_of, slice_of_draw
from tfdist.keras_repairs.random_numbers.stateless_draws import drawing, shuffled

Function = Callable[..., Any]

_OF_KERAS = "keras.random"


def of_shape(original: Function) -> Function:
    """Repairs the functions of `keras.random` that take the shape of what they draw."""

    def repaired(shape: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        with _drawing(shape):
            return original(shape, *args, **kwargs)

    return repaired


def dropout(original: Function) -> Function:
    """Repairs `keras.random.dropout`, whose mask is drawn as by `uniform`."""

    def repaired(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> tf.Tensor:
        if (current_step() is None and not is_noting()) or rate in (0.0, 1.0):
            return original(inputs, rate, noise_shape, seed)
        inputs = tf.convert_to_tensor(inputs)
        is_of_keras = sys._getframe(1).f_globals["__name__"].startswith("keras.src.layers.")
        with _drawing(_sizes_of_noise(inputs, noise_shape, is_of_keras), is_of_rows=is_of_keras):
            return original(inputs, rate, noise_shape, seed)

    return repaired


def categorical(original: Function) -> Function:
    """Repairs `keras.random.categorical`."""

    def repaired(logits: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        logits = tf.convert_to_tensor(logits)
        with _drawing(_sizes_of(logits)[:1]):
            return original(logits, *args, **kwargs)

    return repaired


def shuffle(original: Function) -> Function:
    """Repairs `keras.random.shuffle`: along the batch, the rows of all replicas are gathered and shuffled."""

    def repaired(x: Any, axis: int = 0, seed: Any = None) -> tf.Tensor:
        x = tf.convert_to_tensor(x)
        along = axis % x.shape.rank
        sizes = _sizes_of(x)[along : along + 1]
        rows = x if along == 0 else tf.experimental.numpy.moveaxis(x, along, 0)
        with _drawing(sizes):
            shuffled_rows = shuffled(sizes, rows, lambda all_rows: original(all_rows, 0, seed), "keras.random.shuffle")
        return shuffled_rows if along == 0 else tf.experimental.numpy.moveaxis(shuffled_rows, 0, along)

    return repaired


def _drawing(shape: Any, *, is_of_rows: bool = False) -> contextlib.AbstractContextManager[None]:
    """The operations inside draw this replica's slice of a shape, as code gives it; see `slice_of_draw`."""
    step = current_step()
    if draw_scope.replaces_draws():
        return contextlib.nullcontext()
    if step is not None:
        return drawing(slice_of_draw(sizes_of(shape), step, _OF_KERAS, is_of_rows=is_of_rows))
    if not is_noting():
        return contextlib.nullcontext()
    note_draw(shape, _OF_KERAS)
    return drawing(None)


def _sizes_of(x: tf.Tensor) -> tuple[Size, ...]:
    """The sizes of a tensor, that of the batch marked where it is a number."""
    return tuple(backend.shape(x))


def _sizes_of_noise(inputs: tf.Tensor, noise_shape: Any, is_of_keras: bool) -> Sequence[Size]:
    """The sizes of a dropout's mask.

    Args:
        inputs: What is dropped from.
        noise_shape: As Keras takes it: None for the sizes of `inputs`.
        is_of_keras: Whether a layer of Keras's drops, whose inputs have the batch, or a multiple of it, first.
    """
    sizes, step = list(_sizes_of(inputs)), current_step()
    if is_of_keras and step is not None and step.share.static_rows and isinstance(sizes[0], int):
        sizes[0] = sizes[0] if sizes[0] % step.share.static_rows else BatchSize(sizes[0])
    given = noise_shape or [None] * len(sizes)
    return [size if chosen is None else chosen for size, chosen in zip(sizes, given, strict=True)]
