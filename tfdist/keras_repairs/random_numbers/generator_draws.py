"""Draws of a `tf.random.Generator` in a replica's step: its rows of what one device would draw.

A generator has a key and a counter, which each draw advances by what one device draws. The copies that a strategy made
each advance by themselves, and TensorFlow mixes the replica's number into the key, which no step of Keras's does here.
A state that the replicas of a worker share is advanced by the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.replica_copies import own_copy
from tfdist.keras_repairs.base.replica_step import current_step, is_alone, is_tried_out
from tfdist.keras_repairs.coupling.traced_calls import is_noting
from tfdist.keras_repairs.draw_slices import draw_scope
from tfdist.keras_repairs.random_numbers.draw_sizes import sizes_of, slice_of_draw
from tfdist.keras_repairs.random_numbers.stateless_draws import drawing, slice_drawn

Function = Callable[..., Any]

_OF_GENERATOR = "tf.random.Generator"


def of_shape(original: Function) -> Function:
    """Repairs the methods of `tf.random.Generator` that take the shape of what they draw."""

    def repaired(self: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_in_step():
            return original(self, shape, *args, **kwargs)
        step = current_step()
        with drawing(None if step is None else slice_of_draw(sizes_of(shape), step, _OF_GENERATOR)):
            return original(self, shape, *args, **kwargs)

    return repaired


def prepare_key_counter(original: Function) -> Function:
    """Repairs `tf.random.Generator._prepare_key_counter`, which advances the state by a draw of a shape."""

    def repaired(self: Any, shape: Any) -> Any:
        if not _is_in_step():
            return original(self, shape)
        draw_slice = slice_drawn()
        drawn = tf.reduce_prod(tf.cast(shape, tf.int64) if draw_slice is None else draw_slice.whole)
        counter_and_key = tf.bitcast(_skipped(self, drawn), tf.uint64)
        return counter_and_key[-1:], counter_and_key[:-1]

    return repaired


def refused(original: Function) -> Function:
    """Repairs methods of `tf.random.Generator` of which it is not known how many numbers they take."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_in_step():
            return original(self, *args, **kwargs)
        raise UnsupportedError(
            f"tf.random.Generator.{original.__name__} was used in a step. Which numbers it takes is not known, so "
            "several replicas cannot draw those of one device. Use the function of the same name in keras.random, with "
            "seed=keras.random.SeedGenerator(...) made once in the place of the generator."
        )

    return repaired


def _is_in_step() -> bool:
    """Returns whether the code that runs is that of a step, and not tried out: there its draws are recorded and
    replayed."""
    is_step = current_step() is not None or is_alone()
    return is_step and not (draw_scope.replaces_draws() or is_noting() or is_tried_out())


def _skipped(generator: Any, drawn: tf.Tensor) -> tf.Tensor:
    """The state of a generator before a draw, int64; afterwards it is that after it."""
    state = generator.state
    own = own_copy(state)
    if own is not state:
        skipped: tf.Tensor = generator._skip_single_var(own, drawn)
        return skipped
    return tensorflow_seeds.once_on_worker(state, lambda: generator._skip_single_var(state, drawn))
