"""What workers tell one another, with two workers played by one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime import collectives

Play = Callable[[np.ndarray, np.ndarray], list[np.ndarray]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Gathers one value from each of two workers; returns what each of them gets."""

    def gather_as(rank: int, value: np.ndarray, add_up: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        monkeypatch.setattr(collectives, "worker_count", lambda strategy: 2)
        monkeypatch.setattr(collectives, "worker_rank", lambda strategy: rank)
        monkeypatch.setattr(collectives, "_sum_over_workers", lambda rows, strategy: add_up(rows))
        return collectives.all_gather(value, tf.distribute.get_strategy())

    def gather(*values: np.ndarray) -> list[np.ndarray]:
        said: list[np.ndarray] = []

        def say(rows: np.ndarray) -> np.ndarray:
            said.append(rows)
            raise EOFError

        for rank, value in enumerate(values):
            with pytest.raises(EOFError):
                gather_as(rank, value, say)
        return [gather_as(rank, value, lambda rows: said[0] + said[1]) for rank, value in enumerate(values)]

    return gather


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([-0.0, np.nan, -np.inf], np.float32), np.array([np.float32(-1), 1e-45, 0], np.float32)),
        (np.arange(3, dtype=np.uint8), np.array([255, 128, 127], np.uint8)),  # of no multiple of four bytes
        (np.array(True), np.array(False)),
        (np.int64(-1), np.int64(2**62 + 1)),
        (np.zeros((2, 0), np.float16), np.zeros((2, 0), np.float16)),
        (np.arange(6, dtype=np.int16).reshape(2, 3).T, np.arange(6, dtype=np.int16).reshape(2, 3).T),
    ],
)
def test_any_values_are_gathered_bit_for_bit(play: Play, first: Any, second: Any) -> None:
    for got in play(first, second):
        assert (got.shape, got.dtype) == ((2, *np.shape(first)), first.dtype)
        assert [row.tobytes() for row in got] == [np.asarray(first).tobytes(), np.asarray(second).tobytes()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.5, 0),  # the bits of 0.5 are 4602678819172646912 as an integer
        (np.zeros(2, np.float32), np.zeros(1, np.float64)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2, np.float16), np.zeros(2, tf.bfloat16.as_numpy_dtype)),
    ],
)
def test_arrays_of_different_kinds_are_refused_on_every_worker(play: Play, first: Any, second: Any) -> None:
    for values in ((first, second), (second, first)):
        with pytest.raises(UsageError, match=r"on worker 0, and another on 1\. Convert"):
            play(*values)


@pytest.mark.parametrize("value", [None, {"a": 1}, 2**70, [None, 1.0]])
def test_what_is_no_array_is_refused_alone_too(value: Any) -> None:
    with pytest.raises(UsageError, match=f"Received: a {type(value).__name__}, which is none"):
        collectives.all_gather(value, tf.distribute.get_strategy())
