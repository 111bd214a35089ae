"""Pieces of batches that another worker of the host has drawn: parts of the rows, or whole where rows differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer
from tfdist.runtime.batches.host_feed.fed_batches import _arrays_of


def batch(*rows: int) -> list[NDArray]:
    return [np.arange(count, dtype=np.float32) for count in rows]


def sizes(slicer: BatchSlicer, arrays: Sequence[NDArray]) -> list[list[int]]:
    """The rows of the data of each of the worker's replicas."""
    return [[len(part) for part in piece[: len(arrays)]] for piece in slicer.slices(arrays, 6, np.copy)]


def test_batches_of_different_rows_are_whole_from_the_first_one_on() -> None:
    slicer = BatchSlicer(2, [0, 1], (True, True), True, shares_rows=None)
    assert sizes(slicer, batch(6, 18)) == [[6, 18], [6, 18]]
    assert sizes(slicer, batch(4, 4)) == [[4, 4], [4, 4]]


def test_batches_that_begin_with_as_many_rows_are_cut() -> None:
    slicer = BatchSlicer(2, [0, 1], (True, True), True, shares_rows=None)
    assert sizes(slicer, batch(6, 6)) == [[3, 3], [3, 3]]


def drawn(*pairs: tuple[int, int], shares_rows: bool | None) -> Iterator[list[NDArray]]:
    def made() -> Iterator[tuple[NDArray, NDArray]]:
        for pair in pairs:
            yield tuple(batch(*pair))  # type: ignore[misc]

    spec = tf.TensorSpec((None,), tf.float32)
    data = tf.data.Dataset.from_generator(made, output_signature=(spec, spec))
    return _arrays_of(iter(data), (True, True), shares_rows)


def test_what_is_drawn_may_differ_where_the_first_batch_does() -> None:
    assert len(list(drawn((6, 18), (4, 4), shares_rows=None))) == 2


@pytest.mark.parametrize("shares_rows", [None, True])
def test_what_comes_to_differ_is_refused(shares_rows: bool | None) -> None:
    batches = drawn((4, 4), (6, 18), shares_rows=shares_rows)
    next(batches)
    with pytest.raises(UnsupportedError, match=r"different numbers of rows.*\[6, 18\]"):
        next(batches)
