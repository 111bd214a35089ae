"""The strategy that tfdist makes for several devices of one process."""

from __future__ import annotations

import functools

import tensorflow as tf

from tfdist.runtime.strategy import choose, make


@functools.cache
def mirrored(replicas: int) -> tf.distribute.Strategy:
    """MirroredStrategy over the first logical CPUs."""
    devices = [f"/device:CPU:{device}" for device in range(replicas)]
    return make(choose(devices, workers=1, logical=True), devices)
