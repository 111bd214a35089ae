"""Copies between the devices of this process, and sums over all replicas, checked to the bit; and the times of a step.

On some machines copies from GPU to GPU (peer to peer) arrive damaged, without an error: an IOMMU or the switches
between them rewrite or lose what passes. A training there gives wrong numbers, or NaN.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.selftest.matrix.row_runner import RowContext, RowFunction
from tfdist.training import api

SIZES = (1 << 10, 1 << 24)
"""Elements of float32 that are copied and summed: a packet's worth, and 64 MiB."""

_PERIOD = 1024
"""Summands are integers below it, so that their sum over up to a hundred replicas is exact in float32."""
layers = keras.layers
_EPOCHS = 4
"""The first one traces; of the others the fastest counts."""


def copies(context: RowContext) -> Mapping[str, Any]:
    """Checks every pair of this process's devices, and sums over all replicas of the job."""
    strategy = api.strategy()
    # With several workers, each has one device.
    names = [device.name for device in local_devices()] if api.num_workers() == 1 else []
    return {
        "pairs": [check_pair(one, other) for one, other in itertools.permutations(names, 2)],
        "sums": list(check_sums(strategy)) if strategy.num_replicas_in_sync > 1 else [],
    }


def local_devices() -> Sequence[tf.config.LogicalDevice]:
    """The GPUs of this process, else its logical CPUs."""
    return tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")


def check_pair(source: str, target: str, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Copies random bits from one device to another.

    Args:
        source: Name of the device that they are copied from.
        target: Name of the device that they are copied to.
        sizes: How many elements of float32.

    Returns:
        `source`, `target`; `wrong`, how many elements arrived as others; `damaged`, how many were others on the source
        itself, on the way from and to the host; `bytes_per_second` of the largest copy.
    """
    wrong = damaged = 0
    seconds = 0.0
    for number, size in enumerate(sizes):
        bits = np.random.default_rng(number).integers(0, 1 << 32, size, dtype=np.uint32)
        with tf.device(source):
            there = tf.identity(tf.constant(bits.view(np.float32)))
        copy, seconds = _copied(there, target)
        damaged += _differing(bits, there)
        wrong += _differing(bits, copy)
    return {
        "source": _short(source),
        "target": _short(target),
        "wrong": wrong,
        "damaged": damaged,
        "bytes_per_second": 4 * sizes[-1] / max(seconds, 1e-9),
    }


def _copied(tensor: tf.Tensor, target: str) -> tuple[tf.Tensor, float]:
    """The copy on another device, and the seconds that it took; the first one there may set the path up."""
    with tf.device(target):
        tf.identity(tensor)
        tf.test.experimental.sync_devices()
        begin = time.monotonic()
        copy = tf.identity(tensor)
        tf.test.experimental.sync_devices()
    return copy, time.monotonic() - begin


def _differing(bits: np.ndarray, tensor: tf.Tensor) -> int:
    return int(np.count_nonzero(tensor.numpy().view(np.uint32) != bits))


def _short(device: str) -> str:
    return device.rpartition("device:")[2]


def check_sums(strategy: tf.distribute.Strategy, sizes: Sequence[int] = SIZES) -> Iterator[dict[str, Any]]:
    """Sums integers over all replicas, by the collectives of the strategy.

    Args:
        strategy: A strategy of more than one replica.
        sizes: How many elements of float32.

    Yields:
        For each size `elements`; `wrong`, how many elements of this worker's replicas are another sum; and
        `bytes_per_second` of one sum.
    """
    replicas = strategy.num_replicas_in_sync
    for size in sizes:
        expected = (np.arange(size) % _PERIOD * (replicas * (replicas + 1) // 2)).astype(np.float32)
        summed = _sum_of(strategy, size)
        summed()
        begin = time.monotonic()
        results = [part.numpy() for part in summed()]
        seconds = time.monotonic() - begin
        wrong = sum(int(np.count_nonzero(result != expected)) for result in results)
        yield {"elements": size, "wrong": wrong, "bytes_per_second": 4 * size / max(seconds, 1e-9)}


def _sum_of(strategy: tf.distribute.Strategy, size: int) -> Any:
    def on_replica() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
        part = tf.cast(tf.range(size) % _PERIOD, tf.float32) * number
        return context.all_reduce(tf.distribute.ReduceOp.SUM, part)

    @tf.function
    def step() -> Sequence[tf.Tensor]:
        return strategy.experimental_local_results(strategy.run(on_replica))

    return step




def convolutions() -> keras.Model:
    """A convolutional net of 0.6 million parameters on images of 32 x 32 x 3."""
    blocks = [
        layer
        for filters in (32, 64, 128)
        for layer in (
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
        )
    ]
    return keras.Sequential(
        [keras.Input((32, 32, 3)), *blocks, layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]
    )


def wide() -> keras.Model:
    """Dense layers of 13 million parameters, whose gradients are 50 MB, on vectors of 1,024 numbers."""
    hidden = [layers.Dense(2048, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((1024,)), *hidden, layers.Dense(10)])


def speed(context: RowContext) -> Mapping[str, Any]:
    """Trains both with the same number of samples on every replica."""
    return {
        "convolutions": _timed(context, convolutions(), (32, 32, 3), samples=64, steps=8),
        "wide": _timed(context, wide(), (1024,), samples=64, steps=8),
    }


def _timed(
    context: RowContext, model: keras.Model, shape: tuple[int, ...], *, samples: int, steps: int
) -> dict[str, Any]:
    """Seconds of a step, and the samples of its global batch."""
    batch = samples * api.num_replicas()
    draw = np.random.default_rng(3)
    x, y = draw.normal(size=(batch, *shape)).astype(np.float32), draw.integers(0, 10, batch)
    # One batch again and again: what is timed is the step, and not how data are read.
    data = tf.data.Dataset.from_tensors((x, y)).repeat(steps)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    watch = _EpochWatch()
    context.fit(model, data, epochs=_EPOCHS, callbacks=[watch])
    return {"seconds": min(watch.seconds[1:]) / steps, "batch": batch}


class _EpochWatch(keras.callbacks.Callback):
    """Notes the seconds of each epoch, whose end waits for the devices: it reads the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._begin = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds.append(time.monotonic() - self._begin)


ROWS: Mapping[str, RowFunction] = MappingProxyType({"copies": copies, "speed": speed})
