"""Time that a model takes for one sample, outside of any strategy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

_SECONDS = 0.5
_MOST = 200
_FIRST = 5


def sample_seconds(call: Callable[[], Any]) -> float:
    """The median of some calls, after a few that compile and warm up."""
    for _ in range(_FIRST):
        call()
    took: list[float] = []
    begun = time.perf_counter()
    while len(took) < _MOST and (len(took) < _FIRST or time.perf_counter() - begun < _SECONDS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def model_seconds(model: keras.Model, sample: Any) -> float:
    """Of a model in a `tf.function`, for a batch of one sample."""
    function = tf.function(lambda inputs: model(inputs, training=False))

    def call() -> None:
        # To the host, as whoever waits for a prediction has it.
        tf.nest.map_structure(lambda output: output.numpy(), function(sample))

    return sample_seconds(call)
