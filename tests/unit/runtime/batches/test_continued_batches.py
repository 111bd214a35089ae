"""Parts of a dataset go on where the one before has ended, and read no further than one device does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tfdist.runtime.batches.continued_batches import ContinuedBatches, _read_ahead

Dataset = tf.data.Dataset


def numbers(dataset: Dataset) -> list[int]:
    return [int(number) for number in dataset]


def test_each_part_goes_on_and_the_last_one_is_shorter() -> None:
    whole = Dataset.range(8)
    continued = ContinuedBatches(whole)
    parts = [numbers(continued.part(whole, steps)) for steps in (3, 2, 3, 3)]
    assert parts == [[0, 1, 2], [3, 4], [5, 6, 7], []]


def test_a_part_begins_anew_where_it_is_told_to() -> None:
    whole = Dataset.range(8)
    continued = ContinuedBatches(whole)
    continued.restart()
    assert numbers(continued.part(whole, 3)) == [0, 1, 2]
    continued.restart()
    assert numbers(continued.part(whole, 3)) == [0, 1, 2]


def test_batches_keep_their_structure() -> None:
    rows = tf.RaggedTensor.from_row_lengths(tf.range(6), [1, 3, 2])
    whole = Dataset.from_tensor_slices({"rows": rows, "text": ["a", "b", "c"]}).batch(2)
    whole = whole.map(lambda batch: (batch, tf.experimental.Optional.empty(tf.TensorSpec([], tf.int64))))
    continued = ContinuedBatches(whole)
    assert continued.part(whole, 1).element_spec == whole.element_spec
    ((batch, nothing),) = continued.part(whole, 1)
    assert batch["rows"].to_list() == [[0], [1, 2, 3]] and not nothing.has_value()


def test_a_pipeline_that_is_debugged_is_cut_as_any_other() -> None:
    tf.data.experimental.enable_debug_mode()
    try:
        whole = Dataset.range(4).map(lambda number: number + 1)
        part = ContinuedBatches(whole).part(whole, 2)
        assert numbers(part) == [1, 2]
    finally:
        tf.data.experimental.enable_debug_mode.__globals__["toggle_debug_mode"](False)


def no_prefetch() -> tf.data.Options:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return options


@pytest.mark.parametrize(
    ("change", "itself", "ahead"),
    [
        (lambda batches: batches, True, 1),
        (lambda batches: batches.repeat(), False, 1),
        (lambda batches: batches.map(tf.abs), True, 2),
        (lambda batches: batches.map(tf.abs, num_parallel_calls=2), True, 0),
        (lambda batches: batches.map(tf.abs, num_parallel_calls=2), False, 1),
        (lambda batches: batches.unbatch().map(tf.abs, num_parallel_calls=2).batch(2), True, 0),
        (lambda batches: batches.unbatch().map(tf.abs).batch(2), True, 1),
        (lambda batches: batches.unbatch().batch(2, num_parallel_calls=2), True, 0),
        (lambda batches: batches.map(tf.abs).with_options(tf.data.Options()), True, 2),
        (lambda batches: batches.with_options(no_prefetch()), True, 0),
        (lambda batches: batches.prefetch(3), True, 0),
        (lambda batches: batches.prefetch(3), False, 3),
        (lambda batches: batches.prefetch(tf.data.AUTOTUNE), False, 1),
    ],
)
def test_as_many_are_read_ahead_as_on_one_device(
    change: Callable[[Dataset], Dataset], itself: bool, ahead: int
) -> None:
    assert _read_ahead(change(Dataset.range(8).batch(2)), itself=itself) == ahead
