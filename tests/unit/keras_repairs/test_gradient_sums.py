"""Which lookups are of samples, in loops of the user's with batches of known sizes, alike whatever rows there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tfdist.keras_repairs import gradient_sums

PLACES = 16


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_sums, "_SAME_IN_ALL_BATCHES", set())


def are_of_samples(look_up: Callable[[tf.Tensor], tf.Tensor], rows: int) -> bool:
    """What is told of the slices of a lookup, in a function of a batch of `rows` texts."""
    table, told = tf.Variable(tf.ones([PLACES, 4])), []

    @tf.function
    def step(texts: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            found = tf.gather(table, look_up(texts)) + 0 * tf.reduce_sum(tf.cast(texts, tf.float32))
        slices = tape.gradient(found, table)
        told.extend(is_of_samples for _, is_of_samples in gradient_sums.lookups(slices.indices))

    step(tf.zeros([rows, PLACES], tf.int32))
    (is_of_samples,) = told
    return is_of_samples


@pytest.mark.parametrize("rows", [16, 15, 8, 7])
def test_places_are_the_same_in_all_batches(rows: int) -> None:
    """16 and 8 divide them."""
    assert not are_of_samples(lambda texts: tf.where(tf.range(PLACES) < 0, 0, tf.range(PLACES)), rows)


@pytest.mark.parametrize("look_up", [lambda _: tf.range(PLACES), lambda _: tf.zeros([1], tf.int32)])
def test_one_row_tells_nothing_that_more_have_not_told(look_up: Callable[[tf.Tensor], tf.Tensor]) -> None:
    assert are_of_samples(look_up, 1)
    assert [are_of_samples(look_up, rows) for rows in (8, 1, 0)] == [False, False, False]


@pytest.mark.parametrize("rows", [8, 2, 1, 0])
def test_what_is_repeated_for_each_row_is_of_samples(rows: int) -> None:
    assert are_of_samples(lambda texts: tf.zeros(texts.shape[:1], tf.int32), rows)
    assert are_of_samples(lambda texts: tf.tile(tf.range(PLACES)[tf.newaxis], [texts.shape[0], 1]), rows)


@pytest.mark.parametrize("rows", [8, 1])
def test_values_of_the_batch_are_of_samples(rows: int) -> None:
    assert are_of_samples(lambda texts: texts[:, 0], rows)
