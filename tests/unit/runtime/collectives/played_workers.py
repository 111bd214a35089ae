"""Plays workers in threads of one process, with an engine that checks what they give it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.wire.engine import Channel, Reduction

BOUND = 20.0
_COMBINE: dict[Reduction, Callable[..., Any]] = {
    "sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum
}  # fmt: skip


class Network:
    """Where the workers of each group meet, call by call. It keeps the sizes that each key has carried."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meetings: dict[Any, dict[int, Any]] = {}
        self._changed = threading.Condition(self._lock)
        self._counts: dict[Any, int] = {}
        self.carried: dict[tuple[int, int], Any] = {}

    def swap(self, kind: str, flat: tf.Tensor, channel: Channel) -> list[np.ndarray]:
        """What all workers of a channel give to the same call, in their order."""
        assert flat.shape.rank == 1
        assert flat.shape[0] > 0
        assert list(channel.workers) == sorted(channel.workers)
        own = (channel.group_key, channel.key)
        carried = (channel.workers, kind, flat.dtype, flat.shape[0])
        with self._changed:
            assert self.carried.setdefault(own, carried) == carried, "a key stands for one call, dtype and size"
            number = self._counts.get((own, channel.place), 0)
            self._counts[own, channel.place] = number + 1
            meeting = self._meetings.setdefault((own, number), {})
            meeting[channel.place] = flat.numpy()
            self._changed.notify_all()
            met = self._changed.wait_for(lambda: len(meeting) == len(channel.workers), BOUND)
        assert met, f"workers of {channel} did not come"
        return [meeting[place] for place in range(len(channel.workers))]


class PlayedEngine:
    """See `CollectiveEngine`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        rows = self._network.swap(f"all_reduce {op}", flat, channel)
        assert flat.dtype in (tf.float64, tf.float32, tf.bfloat16, tf.float16, tf.int32, tf.int64)
        return tf.constant(_COMBINE[op].reduce(rows) if flat.dtype != tf.bfloat16 else _folded(op, rows))

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        return tf.split(self.all_reduce(flat, op, channel), len(channel.workers))[channel.place]

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        return tf.constant(np.concatenate(self._copied("all_gather", flat, channel)))

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        rows = self._copied("all_to_all", flat, channel)
        return tf.constant(np.stack([np.split(row, len(rows))[channel.place] for row in rows]).reshape(-1))

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        return tf.constant(self._copied(f"broadcast {root}", flat, channel)[root])

    def _copied(self, kind: str, flat: tf.Tensor, channel: Channel) -> list[np.ndarray]:
        assert flat.dtype in (tf.int32, tf.int64)
        return self._network.swap(kind, flat, channel)


class MirrorEngine:
    """Another worker that gives what this one does, for functions, too. It keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        assert op == "sum"
        self.asked.append("all_reduce")
        return 2 * flat

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        return tf.split(self.all_reduce(flat, op, channel), 2)[channel.place]

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        self.asked.append("all_gather")
        return tf.tile(flat, [2])

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        self.asked.append("all_to_all")
        return tf.tile(tf.split(flat, 2)[channel.place], [2])

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        self.asked.append("broadcast")
        return tf.identity(flat)


def _folded(op: Reduction, rows: list[np.ndarray]) -> np.ndarray:
    total = rows[0]
    for row in rows[1:]:
        total = _COMBINE[op](total, row)
    return total


def play(workers: int, act: Callable[[Communicator], Any]) -> list[Any]:
    """What each of some workers gets from `act`; an error is raised. The last one has the main thread."""
    network = Network()
    communicators = [Communicator(worker, workers, PlayedEngine(network)) for worker in range(workers)]
    *others, last = communicators
    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        acts = [threads.submit(act, communicator) for communicator in others]
        own = act(last)
        return [*(done.result(2 * BOUND) for done in acts), own]
