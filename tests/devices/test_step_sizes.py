"""Steps are traced for batches of any size, or of one if need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import UnclearSizeError
from tfdist.keras_repairs.loop.step_execution import TraceAgain
from tfdist.keras_repairs.loop.step_sizes import StepSizes
from tfdist.runtime.batches.replica_batches import ReplicaBatch, extent_of

BATCH = tf.ones((4, 3))


def step_of(
    traced: list[Any], then: Callable[[tf.Tensor], Any], *, total: int | None = 8, can_run_whole: bool = True
) -> Any:
    """A step of two replicas; it notes for each trace the sizes of piece and batch that it knows, and what it takes."""
    sizes = StepSizes(2, can_run_whole=can_run_whole)

    def step(batch: tf.Tensor) -> Any:
        none = tf.constant(0, tf.int64)
        extent = () if total is None else extent_of(total)
        batch, known = sizes.given(ReplicaBatch(batch, none, none, none, (), (), extent))
        traced.append((batch.shape[0], known, sizes.runs_whole))
        with sizes.retracing():
            return then(batch)

    return tf.function(step, autograph=False)


def needing_number(batch: tf.Tensor) -> tf.Tensor:
    return tf.zeros(batch.shape)


def finding_unclear_sizes(batch: tf.Tensor) -> tf.Tensor:
    if batch.shape[0] is not None:
        raise UnclearSizeError("4, which may be that of the batch")
    return needing_number(batch)


def test_it_is_traced_for_any_size() -> None:
    traced: list[Any] = []
    step = step_of(traced, tf.identity)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [(None, None, False)]


def test_a_step_that_needs_numbers_gets_them_afterwards() -> None:
    traced: list[Any] = []
    step = step_of(traced, needing_number)
    with pytest.raises(TraceAgain):
        step(BATCH)
    for _ in range(2):
        assert step(BATCH).shape == (4, 3)
    assert traced == [(None, None, False), (4, 8, False)]


def test_a_step_that_needs_numbers_runs_whole_where_pieces_differ() -> None:
    traced: list[Any] = []
    step = step_of(traced, needing_number, total=7)
    with pytest.raises(TraceAgain):
        step(BATCH)
    step(BATCH)
    assert traced == [(None, None, False), (4, 7, True)]


def test_a_step_runs_whole_where_a_number_may_be_the_size_of_its_piece() -> None:
    traced: list[Any] = []
    step = step_of(traced, finding_unclear_sizes)
    for _ in range(2):
        with pytest.raises(TraceAgain):
            step(BATCH)
    with pytest.raises(UnclearSizeError):
        step(BATCH)
    assert traced == [(None, None, False), (4, 8, False), (4, 8, True)]


@pytest.mark.parametrize("options", [{"total": None}, {"can_run_whole": False}])
def test_a_number_that_may_be_the_size_is_refused_where_a_step_cannot_run_whole(options: Any) -> None:
    step = step_of([], finding_unclear_sizes, **options)
    with pytest.raises(TraceAgain):
        step(BATCH)
    with pytest.raises(UnclearSizeError):
        step(BATCH)


def test_a_size_that_is_returned_and_not_known_asks_for_the_other_trace() -> None:
    sizes = StepSizes(2, can_run_whole=True)
    none = tf.constant(0, tf.int64)

    @tf.function(autograph=False)
    def step(batch: tf.Tensor) -> Any:
        batch, _ = sizes.given(ReplicaBatch(batch, none, none, none, (), (), extent_of(8)))
        sizes.check({"n": batch.shape[0]})
        return batch.shape[0]

    with pytest.raises(TraceAgain):
        step(BATCH)
    assert step(BATCH) == 4


def test_an_error_of_every_trace_is_the_users() -> None:
    def fail(batch: tf.Tensor) -> Any:
        raise ValueError(f"not with {batch.shape[0]}")

    step = step_of([], fail)
    for _ in range(2):
        with pytest.raises(TraceAgain):
            step(BATCH)
    with pytest.raises(ValueError, match="not with 4"):
        step(BATCH)


def test_an_error_of_a_size_that_is_not_known_says_what_to_write() -> None:
    step = step_of([], lambda batch: batch / batch.shape[0], total=None)
    with pytest.raises(ValueError, match="None values not supported") as error:
        step.get_concrete_function(tf.TensorSpec([None, 3]))
    assert "keras.ops.shape(x)[0]" in error.value.__notes__[0]
