"""Which datasets give the same batches in another process, read off their graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.inputs.data_position import why_not_deterministic

Make = Callable[[], tf.data.Dataset]


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.arange(20, dtype=np.float32))


def any_order() -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = False
    return numbers().with_options(options)


def chance(x: tf.Tensor) -> tf.Tensor:
    return x + tf.random.uniform([])


@pytest.fixture
def seeded() -> Iterator[None]:
    tf.random.set_seed(3)
    yield
    tf.random.set_seed(None)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    "make",
    [
        numbers,
        lambda: numbers().shuffle(5).batch(3),
        lambda: numbers().cache().shuffle(5).repeat().prefetch(2),
        lambda: numbers().map(lambda x: 2 * x, num_parallel_calls=2).filter(lambda x: x > 3),
        lambda: numbers().interleave(lambda x: tf.data.Dataset.from_tensors(x), num_parallel_calls=2),
        lambda: numbers().map(lambda x: tf.random.stateless_uniform([], seed=[1, tf.cast(x, tf.int32)])),
    ],
)
def test_a_deterministic_dataset(make: Make) -> None:
    assert why_not_deterministic(make()) == ""


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tf.data.Dataset.from_generator(lambda: iter([1]), output_types=tf.int32), "it calls Python code"),
        (lambda: numbers().map(lambda x: tf.numpy_function(np.sin, [x], tf.float32)), "it calls Python code"),
        (lambda: numbers().map(chance), "it draws random numbers"),
        (lambda: tf.data.Dataset.sample_from_datasets([numbers(), numbers()], seed=1), "it draws random numbers"),
        (lambda: numbers().shuffle(5).cache().batch(2), "it caches the order of its first epoch"),
        (lambda: numbers().map(lambda x: x, num_parallel_calls=2, deterministic=False), "it allows any order"),
        (any_order, "its options allow any order"),
    ],
)
def test_the_reason_is_named(make: Make, why: str) -> None:
    assert why_not_deterministic(make()).startswith(why)


def test_a_shuffle_needs_a_seed() -> None:
    tf.random.set_seed(None)
    assert why_not_deterministic(numbers().shuffle(5)) == "it shuffles and TensorFlow has no global seed"
    assert why_not_deterministic(numbers()) == ""
