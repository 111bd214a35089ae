"""Repairs of the operations below `tf.random.stateless_*`, on which `keras.random` stands, too.

A draw of the batch takes the rows of the replica. Numbers that take a fixed count of the generator's are drawn for
those rows alone. For the others, and where the batch is not the first dimension, each replica draws what one device
would and keeps its rows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import current_step, is_compiled_alone
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows
from tfdist.keras_repairs.coupling.traced_calls import is_noting
from tfdist.keras_repairs.draw_slices import draw_scope
from tfdist.keras_repairs.draw_slices.draw_scope import DRAW_SCOPE, Decision
from tfdist.keras_repairs.draw_slices.draw_slice import (
    PHILOX,
    DrawSlice,
    Size,
    as_shape,
    counters_of_truncated_normal,
    lies_in_one_piece,
    philox_rows,
)
from tfdist.keras_repairs.random_numbers.draw_sizes import check_for_xla, note_draw, sizes_of, slice_of_draw

Function = Callable[..., Any]
Whole = Callable[[], tf.Tensor]
Rows = Callable[[DrawSlice], tf.Tensor]

_OF_TENSORFLOW = "tf.random.stateless_*"


def drawing(draw_slice: DrawSlice | None) -> contextlib.AbstractContextManager[None]:
    """The operations inside draw this slice; with None, what is the same on all replicas."""
    return changing(DRAW_SCOPE, decision=Decision(draw_slice))


def slice_drawn() -> DrawSlice | None:
    """The slice that the code inside of `drawing` draws."""
    decision = DRAW_SCOPE.get().decision
    return None if decision is None else decision.draw_slice


def numbers(original: Function) -> Function:
    """Repairs `stateless_random_uniform_v2`, `stateless_random_uniform_full_int_v2`, `stateless_random_normal_v2`.

    Compiled with XLA, normal numbers are made in pairs of the first and the second half of the whole draw.
    """
    is_normal = original.__name__ == "stateless_random_normal_v2"

    def repaired(shape: Any, key: Any, counter: Any, alg: Any, dtype: Any = tf.float32, name: Any = None) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            if not lies_in_one_piece(draw_slice, alg) or (is_normal and draw_slice.within_xla):
                return draw_slice.cut(original(draw_slice.whole, key, counter, alg, dtype))
            return philox_rows(
                lambda sizes, begin: original(sizes, key, begin, PHILOX, dtype),
                draw_slice,
                counter,
                tf.as_dtype(dtype),
            )

        return _drawn(shape, lambda: original(shape, key, counter, alg, dtype, name), rows)

    return repaired


def truncated_normal(original: Function) -> Function:
    """Repairs `stateless_truncated_normal_v2`."""

    def repaired(shape: Any, key: Any, counter: Any, alg: Any, dtype: Any = tf.float32, name: Any = None) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            if not lies_in_one_piece(draw_slice, alg):
                return draw_slice.cut(original(draw_slice.whole, key, counter, alg, dtype))
            return philox_rows(
                lambda sizes, begin: original(sizes, key, begin, PHILOX, dtype),
                draw_slice,
                counter,
                tf.as_dtype(dtype),
                counters_of_truncated_normal(draw_slice, tf.as_dtype(dtype)),
            )

        return _drawn(shape, lambda: original(shape, key, counter, alg, dtype, name), rows)

    return repaired


def integers(original: Function) -> Function:
    """Repairs `stateless_random_uniform_int_v2`."""

    def repaired(shape: Any, key: Any, counter: Any, alg: Any, minval: Any, maxval: Any, name: Any = None) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            if not lies_in_one_piece(draw_slice, alg):
                return draw_slice.cut(original(draw_slice.whole, key, counter, alg, minval, maxval))
            return philox_rows(
                lambda sizes, begin: original(sizes, key, begin, PHILOX, minval, maxval),
                draw_slice,
                counter,
                tf.convert_to_tensor(minval).dtype,
            )

        return _drawn(shape, lambda: original(shape, key, counter, alg, minval, maxval, name), rows)

    return repaired


def gamma(original: Function) -> Function:
    """Repairs `stateless_random_gamma_v3`."""

    def repaired(shape: Any, key: Any, counter: Any, alg: Any, alpha: Any, name: Any = None) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            return draw_slice.cut(original(draw_slice.whole, key, counter, alg, _of_whole(draw_slice, alpha)))

        return _drawn(shape, lambda: original(shape, key, counter, alg, alpha, name), rows)

    return repaired


def with_parameters(original: Function) -> Function:
    """Repairs the operations that take a shape, a seed, and tensors of parameters: of Poisson numbers and others."""

    def repaired(shape: Any, seed: Any, *given: Any, **named: Any) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            of_whole = functools.partial(_of_whole, draw_slice)
            parameters = {key: of_whole(value) for key, value in named.items() if key not in ("dtype", "name")}
            rest = {key: value for key, value in named.items() if key not in parameters}
            return draw_slice.cut(original(draw_slice.whole, seed, *map(of_whole, given), **parameters, **rest))

        return _drawn(shape, lambda: original(shape, seed, *given, **named), rows)

    return repaired


def multinomial(original: Function) -> Function:
    """Repairs `stateless_multinomial`, whose rows are those of its logits."""

    def repaired(logits: Any, num_samples: Any, seed: Any, output_dtype: Any = tf.int64, name: Any = None) -> tf.Tensor:
        def rows(draw_slice: DrawSlice) -> tf.Tensor:
            return draw_slice.cut(original(_at_own_rows(draw_slice, logits), num_samples, seed, output_dtype))

        return _drawn(tf.shape(logits)[:1], lambda: original(logits, num_samples, seed, output_dtype, name), rows)

    return repaired


def shuffle(original: Function) -> Function:
    """Repairs `stateless_shuffle`."""

    def repaired(value: Any, key: Any, counter: Any, alg: Any, name: Any = None) -> tf.Tensor:
        return shuffled(
            tf.shape(value)[:1],
            value,
            lambda rows: original(rows, key, counter, alg, name),
            "tf.random.experimental.stateless_shuffle",
        )

    return repaired


def shuffled(shape: Any, value: tf.Tensor, shuffle: Callable[[tf.Tensor], tf.Tensor], name: str) -> tf.Tensor:
    """Rows in another order; along the batch those of all replicas are gathered.

    Args:
        shape: How many rows there are, as code gives it: one size.
        value: The rows.
        shuffle: Shuffles rows.
        name: What code calls, for messages.

    Raises:
        UnsupportedError: The rows are the numbers of a batch's rows.
    """

    def rows(_: DrawSlice) -> tf.Tensor:
        if value.dtype.is_integer and value.shape.rank == 1:
            raise UnsupportedError(
                f"{name} of the numbers of a batch's rows: the rows of other replicas, to which they point, are not "
                "here. Wrap the function that shuffles and selects in tfdist.gathered(function), or shuffle the rows "
                "themselves."
            )
        batch = gathered_for_rows(value)
        step = current_step()
        with drawing(None):
            if step is None or not step.trace.draws_by_xla:
                return batch.own_rows(shuffle)
            return batch.own_rows(lambda all_rows: _by_xla(lambda: shuffle(all_rows)))

    def whole() -> tf.Tensor:
        with drawing(None), draw_scope.ignoring_draws():
            return shuffle(value)

    return _drawn(shape, whole, rows, gathers=True)


def _drawn(shape: Any, whole: Whole, rows: Rows, *, gathers: bool = False) -> tf.Tensor:
    """Returns what code on this replica draws.

    Args:
        shape: The shape of the draw, as the code gives it; dimensions may follow.
        whole: Draws it, as one device does.
        rows: Draws a replica's slice.
        gathers: Whether it asks the other replicas for that, which XLA cannot; it compiles what it draws by itself.
    """
    scope = DRAW_SCOPE.get()
    outside, decision = scope.outside, scope.decision
    if outside is not None and sizes_of(shape) == sizes_of(outside.whole):
        return rows(outside)
    step = current_step()
    if step is None and is_noting() and decision is None:
        note_draw(shape, _OF_TENSORFLOW)
    if draw_scope.replaces_draws():
        replayed = draw_scope.replayed([int(size) for size in sizes_of(shape)])
        return draw_scope.record(whole()) if replayed is None else replayed
    if step is None:
        # What is tried out runs eagerly.
        if not is_compiled_alone() or not tf.inside_function():
            return whole()
        check_for_xla(shape, _OF_TENSORFLOW)
        return _by_xla(whole)
    draw_slice = slice_of_draw(sizes_of(shape), step, _OF_TENSORFLOW) if decision is None else decision.draw_slice
    draw = whole if draw_slice is None else lambda: rows(draw_slice)
    by_xla = step.trace.draws_by_xla and not step.trace.within_xla and not (gathers and draw_slice is not None)
    return _by_xla(draw) if by_xla else draw()


def _by_xla(draw: Callable[[], tf.Tensor]) -> tf.Tensor:
    """As one device draws that compiles the whole step: XLA's generator orders its numbers in another way."""
    return tf.function(draw, jit_compile=True, autograph=False)()


def _of_whole(draw_slice: DrawSlice, value: Any) -> tf.Tensor:
    """A parameter of the whole draw.

    It keeps its dimensions, by which the numbers are laid out: it may lack the first ones of the draw.
    """
    value = tf.convert_to_tensor(value)
    axis = draw_slice.axis - (len(draw_slice.sizes) - value.shape.rank)
    if axis < 0 or (value.shape[axis] == 1 and draw_slice.size != 1):
        return value
    sizes: list[Size] = [tf.shape(value)[place] for place in range(value.shape.rank)]
    sizes[axis] = draw_slice.size
    return _at_own_rows(draw_slice, tf.broadcast_to(value, as_shape(sizes)), axis)


def _at_own_rows(draw_slice: DrawSlice, value: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """A whole with the rows of this replica at their places; in those of the others the nearest ones stand."""
    size = tf.cast(draw_slice.size, tf.int64)
    if draw_slice.places is not None:
        own = tf.scatter_nd(draw_slice.places[:, tf.newaxis], tf.range(size), tf.reshape(draw_slice.total, [1]))
        return tf.gather(value, own, axis=axis)
    return tf.gather(value, tf.clip_by_value(tf.range(draw_slice.total) - draw_slice.begin, 0, size - 1), axis=axis)
