"""Steps are traced for batches of any size where a number leaves open what it is the size of, or of one if need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import UnclearSizeError
from tfdist.keras_repairs.loop.step_execution import TraceAgain
from tfdist.keras_repairs.loop.step_sizes import StepSizes

BATCH = tf.ones((4, 3))


def step_of(sizes: StepSizes, traced: list[Any], then: Callable[[tf.Tensor], Any] = tf.identity) -> Any:
    def step(batch: tf.Tensor) -> Any:
        batch = sizes.given(batch)
        traced.append(batch.shape[0])
        with sizes.retracing():
            if batch.shape[0] is not None:
                raise UnclearSizeError("whose size is 4?")
            return then(batch)

    return step


def test_it_is_traced_once_more_for_any_size() -> None:
    traced: list[Any] = []
    step = tf.function(step_of(StepSizes(), traced), autograph=False)
    with pytest.raises(TraceAgain):
        step(BATCH)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [4, None]


def test_a_step_that_needs_numbers_is_refused_as_before() -> None:
    step = tf.function(step_of(StepSizes(), [], lambda batch: tf.zeros(batch.shape)), autograph=False)
    with pytest.raises(TraceAgain):
        step(BATCH)
    with pytest.raises(UnclearSizeError, match="whose size is 4"):
        step(BATCH)


def test_eager_steps_are_refused_at_once() -> None:
    sizes = StepSizes()
    for _ in range(2):
        with pytest.raises(UnclearSizeError):
            step_of(sizes, [])(BATCH)


def predict_step_of(sizes: StepSizes, traced: list[Any], then: Callable[[tf.Tensor], Any]) -> Any:
    def step(batch: tf.Tensor) -> Any:
        batch = sizes.given(batch)
        traced.append(batch.shape[0])
        with sizes.retracing():
            return then(batch)

    return tf.function(step, autograph=False)


def test_any_size_first_is_traced_once() -> None:
    traced: list[Any] = []
    step = predict_step_of(StepSizes(any_first=True), traced, tf.identity)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [None]


def test_a_step_that_needs_numbers_gets_them_afterwards() -> None:
    traced: list[Any] = []
    step = predict_step_of(StepSizes(any_first=True), traced, lambda batch: tf.zeros(batch.shape))
    with pytest.raises(TraceAgain):
        step(BATCH)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [None, 4]


def test_an_error_for_sizes_of_both_kinds_is_the_users() -> None:
    def fail(batch: tf.Tensor) -> Any:
        raise ValueError(f"not with {batch.shape[0]}")

    step = predict_step_of(StepSizes(any_first=True), [], fail)
    with pytest.raises(TraceAgain):
        step(BATCH)
    with pytest.raises(ValueError, match="not with 4"):
        step(BATCH)
