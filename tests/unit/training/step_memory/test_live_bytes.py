from __future__ import annotations

import pytest
import tensorflow as tf

from tfdist.training.step_memory.symbolic_step import live_bytes

KIB = 256
"""Floats of a KiB."""


@pytest.fixture(autouse=True)
def graph() -> tf.Graph:
    """A graph of its own."""
    with tf.Graph().as_default() as made:
        yield made


def given(*shape: int | None) -> tf.Tensor:
    """The batch, which is nobody's output."""
    return tf.compat.v1.placeholder(tf.float32, shape)


def test_tensors_that_are_needed_at_the_same_time_add_up() -> None:
    x = given(KIB)
    one, two = tf.roll(x, 1, 0), tf.roll(x, 2, 0)
    assert live_bytes([tf.stack([one, two])]).peak == 4096


def test_what_is_needed_no_more_is_free() -> None:
    x = given(KIB)
    for _ in range(10):
        x = tf.roll(x, 1, 0)
    assert live_bytes([x]).peak == 2048


def test_what_a_later_operation_needs_is_kept_until_then() -> None:
    first = tf.roll(given(KIB), 1, 0)
    x = first
    for _ in range(3):
        x = tf.roll(x, 1, 0)
    assert live_bytes([tf.concat([x, first], 0)]).peak == 4096
    assert live_bytes([x]).peak == 2048


def test_operations_write_over_what_nobody_else_needs() -> None:
    x = tf.roll(given(KIB), 1, 0)
    assert live_bytes([tf.nn.relu(x)]).peak == 1024
    assert live_bytes([tf.nn.relu(x), x]).peak == 2048


def test_another_shape_of_the_same_memory_takes_none() -> None:
    x = tf.roll(given(KIB), 1, 0)
    flat = tf.reshape(tf.identity(x), (16, 16))
    assert live_bytes([flat]).peak == 1024
    # It is needed as long as its other shape is.
    assert live_bytes([tf.stack([flat, tf.roll(tf.roll(flat, 1, 0), 1, 0)])]).peak == 4096


def test_weights_constants_and_the_batch_are_not_of_the_step() -> None:
    weight = tf.Variable(tf.zeros((KIB,)))
    assert live_bytes([tf.roll(weight + tf.ones((KIB,)) + given(KIB), 1, 0)]).peak == 2048


def test_what_is_given_is_counted_elsewhere_and_so_is_what_made_it() -> None:
    gradient = tf.roll(tf.tile(given(KIB), [8]), 1, 0)
    assert live_bytes([gradient]).peak == 16384
    assert live_bytes([gradient], given=[gradient]).peak == 8192
    update = tf.roll(gradient, 1, 0)
    assert live_bytes([update.op], given=[gradient]).peak == 8192


def test_sizes_that_are_not_known_are_named() -> None:
    live = live_bytes([tf.roll(given(None), 1, 0)])
    assert (live.peak, live.unknown) == (0, ("Roll",))
