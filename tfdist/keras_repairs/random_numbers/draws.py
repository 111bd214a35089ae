"""Repairs of the functions of `keras.random`, on which Keras's random layers stand.

Numbers that take a fixed count of the generator's are drawn for the replica's rows alone. For the others, and where the
batch is not the first dimension, each replica draws what one device would and keeps its rows.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend
from keras.src.backend.tensorflow import random as keras_random

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.whole_batch import whole_batch_for_rows
from tfdist.keras_repairs.random_numbers import draw_replay, philox_rows
from tfdist.keras_repairs.random_numbers.batch_size import BatchSize
from tfdist.keras_repairs.random_numbers.draw_sizes import PartOfDraw, Size, as_shape, part_of_draw, sizes_of

Function = Callable[..., Any]
_Rows = Callable[[PartOfDraw], tf.Tensor]
_Whole = Callable[[Any], tf.Tensor]


def uniform(original: Function) -> Function:
    """Repairs `keras.random.uniform`."""

    def repaired(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> tf.Tensor:
        def rows(part: PartOfDraw) -> tf.Tensor:
            low, high = (tf.cast(bound, dtype or backend.floatx()) for bound in (minval, maxval))
            standard = _standard(philox_rows.uniform, tf.random.stateless_uniform, part, _seed(seed), low.dtype)
            return tf.add(standard * (high - low), low)

        return _drawn(shape, lambda whole: original(whole, minval, maxval, dtype, seed), rows)

    return repaired


def normal(original: Function) -> Function:
    """Repairs `keras.random.normal`."""
    return _scaled(original, philox_rows.normal, tf.random.stateless_normal)


def truncated_normal(original: Function) -> Function:
    """Repairs `keras.random.truncated_normal`."""
    return _scaled(original, philox_rows.truncated_normal, tf.random.stateless_truncated_normal)


def randint(original: Function) -> Function:
    """Repairs `keras.random.randint`."""

    def repaired(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> tf.Tensor:
        drawn = dtype if backend.standardize_dtype(dtype) in ("int32", "int64") else "int64"

        def rows(part: PartOfDraw) -> tf.Tensor:
            low, high = (tf.convert_to_tensor(bound, drawn) for bound in (minval, maxval))
            if part.axis != 0:
                whole = tf.random.stateless_uniform(part.whole, _seed(seed), low, high, drawn)
                return tf.cast(part.cut(whole), dtype)
            return tf.cast(philox_rows.uniform_int(part, _seed(seed), low, high), dtype)

        return _drawn(shape, lambda whole: original(whole, minval, maxval, dtype, seed), rows)

    return repaired


def dropout(original: Function) -> Function:
    """Repairs `keras.random.dropout`, whose mask is drawn as by `uniform`."""

    def repaired(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> tf.Tensor:
        if rate in (0.0, 1.0) or not _replaces_draws():
            return original(inputs, rate, noise_shape, seed)
        inputs = tf.convert_to_tensor(inputs)
        is_of_keras = sys._getframe(1).f_globals["__name__"].startswith("keras.src.layers.")
        sizes = _sizes_of_noise(inputs, noise_shape, is_of_keras)
        drawn_seed = _seed(seed)

        def sampler(shape: Any, dtype: tf.DType) -> tf.Tensor:
            return _drawn(
                sizes,
                lambda whole: tf.random.stateless_uniform(whole, drawn_seed, dtype=dtype),
                lambda part: _standard(philox_rows.uniform, tf.random.stateless_uniform, part, drawn_seed, dtype),
            )

        return tf.nn.experimental.general_dropout(inputs, rate, sampler, as_shape(sizes))

    return repaired


def categorical(original: Function) -> Function:
    """Repairs `keras.random.categorical`."""

    def repaired(logits: Any, num_samples: Any, dtype: Any = "int64", seed: Any = None) -> tf.Tensor:
        logits = tf.convert_to_tensor(logits)

        def rows(part: PartOfDraw) -> tf.Tensor:
            return part.cut(original(part.padded(logits, 0), num_samples, dtype, seed))

        return _drawn(_sizes_of(logits)[:1], lambda _: original(logits, num_samples, dtype, seed), rows)

    return repaired


def gamma(original: Function) -> Function:
    """Repairs `keras.random.gamma`."""

    def repaired(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> tf.Tensor:
        def rows(part: PartOfDraw) -> tf.Tensor:
            return part.cut(original(part.whole, _whole_of(part, alpha, dtype), dtype, seed))

        return _drawn(shape, lambda whole: original(whole, alpha, dtype, seed), rows)

    return repaired


def beta(original: Function) -> Function:
    """Repairs `keras.random.beta`."""

    def repaired(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> tf.Tensor:
        def rows(part: PartOfDraw) -> tf.Tensor:
            ends = (_whole_of(part, end, dtype) for end in (alpha, beta))
            return part.cut(original(part.whole, *ends, dtype, seed))

        return _drawn(shape, lambda whole: original(whole, alpha, beta, dtype, seed), rows)

    return repaired


def binomial(original: Function) -> Function:
    """Repairs `keras.random.binomial`."""

    def repaired(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> tf.Tensor:
        def rows(part: PartOfDraw) -> tf.Tensor:
            chances = tf.convert_to_tensor(probabilities, dtype_hint=tf.float32)
            tries = tf.convert_to_tensor(counts, dtype_hint=chances.dtype)
            given = (part.padded(value, 1) for value in (tries, chances))
            return part.cut(original(part.whole, *given, dtype, seed))

        return _drawn(shape, lambda whole: original(whole, counts, probabilities, dtype, seed), rows)

    return repaired


def shuffle(original: Function) -> Function:
    """Repairs `keras.random.shuffle`: along the batch, the rows of all replicas are gathered and shuffled."""

    def repaired(x: Any, axis: int = 0, seed: Any = None) -> tf.Tensor:
        x = tf.convert_to_tensor(x)
        along = axis % x.shape.rank

        def rows(_: PartOfDraw) -> tf.Tensor:
            if x.dtype.is_integer and x.shape.rank == 1:
                raise UnsupportedError(
                    "keras.random.shuffle of the numbers of a batch's rows: the rows of other replicas, to which they "
                    "point, are not here. Wrap the function that shuffles and selects in tfdist.gathered(function), "
                    "or shuffle the rows themselves."
                )
            batch = whole_batch_for_rows(tf.experimental.numpy.moveaxis(x, along, 0))
            own = batch.own_rows(lambda whole: original(whole, 0, seed))
            return tf.experimental.numpy.moveaxis(own, 0, along)

        return _drawn(_sizes_of(x)[along : along + 1], lambda _: original(x, axis, seed), rows)

    return repaired


def _scaled(original: Function, rows: Function, whole: Function) -> Function:
    """Repairs a function of numbers around a mean."""

    def repaired(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> tf.Tensor:
        def scaled_rows(part: PartOfDraw) -> tf.Tensor:
            center, deviation = (tf.convert_to_tensor(value, dtype or backend.floatx()) for value in (mean, stddev))
            return tf.add(_standard(rows, whole, part, _seed(seed), center.dtype) * deviation, center)

        return _drawn(shape, lambda given: original(given, mean, stddev, dtype, seed), scaled_rows)

    return repaired


def _standard(rows: Function, whole: Function, part: PartOfDraw, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The part of a draw with the generator's standard parameters."""
    if part.axis == 0:
        return rows(part, seed, dtype)
    return part.cut(whole(part.whole, seed, dtype=dtype))


def _drawn(shape: Any, whole: _Whole, rows: _Rows) -> tf.Tensor:
    """What code on this replica draws.

    Args:
        shape: The shape of the draw, as the code gives it.
        whole: Draws in a shape, as one device does.
        rows: Draws a replica's part.
    """
    step = current_step()
    if step is None:
        if not draw_replay.is_in_trial():
            return whole(shape)
        replayed = draw_replay.replayed([int(size) for size in sizes_of(shape)])
        return draw_replay.record(whole(shape)) if replayed is None else replayed
    part = part_of_draw(sizes_of(shape), step)
    draw = functools.partial(whole, shape) if part is None else functools.partial(rows, part)
    if step.compiles and not step.within_xla:
        # One device compiles the whole step, and XLA's generator orders its numbers in another way.
        return tf.function(draw, jit_compile=True, autograph=False)()
    return draw()


def _replaces_draws() -> bool:
    return current_step() is not None or draw_replay.is_in_trial()


def _seed(seed: Any) -> tf.Tensor:
    return keras_random._cast_seed(keras_random.draw_seed(seed))


def _whole_of(part: PartOfDraw, value: Any, dtype: Any) -> tf.Tensor:
    """Parameters of the whole draw: this replica's at its rows, and harmless ones elsewhere."""
    dtype = backend.standardize_dtype(dtype or backend.floatx())
    return part.padded(tf.convert_to_tensor(value, "float32" if dtype == "bfloat16" else dtype), 1)


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
    if is_of_keras and step is not None and step.static_rows and isinstance(sizes[0], int):
        sizes[0] = sizes[0] if sizes[0] % step.static_rows else BatchSize(sizes[0])
    given = noise_shape or [None] * len(sizes)
    return [size if chosen is None else chosen for size, chosen in zip(sizes, given, strict=True)]
