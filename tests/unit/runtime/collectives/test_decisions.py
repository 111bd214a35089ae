"""What workers tell one another, with two workers played by one process."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives import decisions

BOUND = 20.0
Play = Callable[..., list[Any]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Calls a function with one value on each of two workers; returns what each of them gets."""

    def together(call: Callable[[Any], Any], *values: Any) -> list[Any]:
        ranks, said, meeting = threading.local(), {}, threading.Barrier(len(values), timeout=BOUND)

        def add_up(rows: np.ndarray, strategy: tf.distribute.Strategy) -> np.ndarray:
            said[ranks.own] = rows
            meeting.wait()
            total = sum(said.values())
            meeting.wait()
            return total

        def work(rank: int) -> Any:
            ranks.own = rank
            return call(values[rank])

        monkeypatch.setattr(decisions, "worker_count", lambda strategy: len(values))
        monkeypatch.setattr(decisions, "worker_rank", lambda strategy: ranks.own)
        monkeypatch.setattr(decisions, "sum_over_workers", add_up)
        with concurrent.futures.ThreadPoolExecutor(len(values)) as workers:
            return list(workers.map(work, range(len(values))))

    return together


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([-0.0, np.nan, -np.inf], np.float32), np.array([np.float32(-1), 1e-45, 0], np.float32)),
        (np.arange(3, dtype=np.uint8), np.array([255, 128, 127], np.uint8)),  # of no multiple of four bytes
        (np.array(True), np.array(False)),
        (np.int64(-1), np.int64(2**62 + 1)),
        (np.zeros((2, 0), np.float16), np.zeros((2, 0), np.float16)),
        *((np.arange(size, dtype=np.uint8), np.full(size, 255, np.uint8)) for size in (51, 52, 53, 308, 309, 5000)),
        (np.arange(6, dtype=np.int16).reshape(2, 3).T, np.arange(6, dtype=np.int16).reshape(2, 3).T),
    ],
)
def test_any_values_are_gathered_bit_for_bit(play: Play, first: Any, second: Any) -> None:
    for got in play(decisions.all_gather, first, second):
        assert (got.shape, got.dtype) == ((2, *np.shape(first)), first.dtype)
        assert [row.tobytes() for row in got] == [np.asarray(first).tobytes(), np.asarray(second).tobytes()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.5, 0),  # the bits of 0.5 are 4602678819172646912 as an integer
        (np.zeros(2, np.float32), np.zeros(1, np.float64)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(1000), np.zeros(1)),
        (np.zeros(2, np.float16), np.zeros(2, tf.bfloat16.as_numpy_dtype)),
    ],
)
def test_arrays_of_different_kinds_are_refused_on_every_worker(play: Play, first: Any, second: Any) -> None:
    for values in ((first, second), (second, first)):
        with pytest.raises(UsageError, match=r"on worker 0, and another on 1\. Convert"):
            play(decisions.all_gather, *values)


@pytest.mark.parametrize("sizes", [(0, 0), (0, 1000), (1000, 0), (40, 60), (3000, 3001)])
def test_objects_may_have_their_own_sizes(play: Play, sizes: tuple[int, int]) -> None:
    objects = [{"worker": "\u00e4" * size} for size in sizes]
    assert play(decisions.gather_objects, *objects) == [objects] * 2


@pytest.mark.parametrize("value", [None, {"a": 1}, 2**70, [None, 1.0]])
def test_what_is_no_array_is_refused_alone_too(value: Any) -> None:
    with pytest.raises(UsageError, match=f"Received: a {type(value).__name__}, which is not such an array"):
        decisions.all_gather(value, tf.distribute.get_strategy())
