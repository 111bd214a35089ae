"""Steps are traced for batches of any size, or of one if need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.loop.step_execution import TraceAgain
from tfdist.keras_repairs.loop.step_sizes import StepSizes

BATCH = tf.ones((4, 3))


def step_of(sizes: StepSizes, traced: list[Any], then: Callable[[tf.Tensor], Any]) -> Any:
    def step(batch: tf.Tensor) -> Any:
        batch = sizes.given(batch)
        traced.append(batch.shape[0])
        with sizes.retracing():
            return then(batch)

    return tf.function(step, autograph=False)


def test_it_is_traced_for_any_size() -> None:
    traced: list[Any] = []
    step = step_of(StepSizes(), traced, tf.identity)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [None]


def test_a_step_that_needs_numbers_gets_them_afterwards() -> None:
    traced: list[Any] = []
    step = step_of(StepSizes(), traced, lambda batch: tf.zeros(batch.shape))
    with pytest.raises(TraceAgain):
        step(BATCH)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [None, 4]


def test_an_error_for_sizes_of_both_kinds_is_the_users() -> None:
    def fail(batch: tf.Tensor) -> Any:
        raise ValueError(f"not with {batch.shape[0]}")

    step = step_of(StepSizes(), [], fail)
    with pytest.raises(TraceAgain):
        step(BATCH)
    with pytest.raises(ValueError, match="not with 4"):
        step(BATCH)


def test_an_error_of_a_size_that_is_not_known_says_what_to_write() -> None:
    step = step_of(StepSizes(), [], lambda batch: batch / batch.shape[0])
    with pytest.raises(ValueError, match="None values not supported") as error:
        step.get_concrete_function(tf.TensorSpec([None, 3]))
    assert "keras.ops.shape(x)[0]" in error.value.__notes__[0]
