"""The strategy that tfdist makes for several devices of one process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf

from tfdist.runtime.strategy import choose, make
from tfdist.runtime.strategy_settings import settings_of


@functools.cache
def mirrored(replicas: int) -> tf.distribute.Strategy:
    """MirroredStrategy over the first logical CPUs."""
    devices = [f"/device:CPU:{device}" for device in range(replicas)]
    strategy, _ = make(choose(devices, workers=1, logical=True), devices)
    return strategy


@contextlib.contextmanager
def of_each_replica(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Lets BatchNormalization take each replica's own statistics under `strategy`, as `--batch-norm replica` does."""
    settings_of(strategy).batch_norm = "replica"
    try:
        yield
    finally:
        settings_of(strategy).batch_norm = "synchronized"
