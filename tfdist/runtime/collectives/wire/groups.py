"""Groups: the workers that take part in a collective, order and keys of their calls, and what tells groups apart."""

from __future__ import annotations

import concurrent.futures
import functools
import operator
import queue
import threading
import zlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.wire.engine import Channel
from tfdist.text import safe_repr

EVERYONE = 742_000
"""The key of the group of all workers; far above those that TensorFlow counts up, and other than the ring's."""

_PAIRS = 1 << 29
_PARTS = 1 << 30
_MOST_NUMBERED = 30
"""Among so many workers every part of them has a number of its own below 2**30; among more it is a checksum."""


@dataclass(frozen=True)
class Group:
    """A part of the workers, made by `tfdist.group`, in ascending order.

    Attributes:
        workers: Their indices.
    """

    workers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.workers)

    def __contains__(self, worker: object) -> bool:
        return worker in self.workers


def make_group(workers: Iterable[int], count: int) -> Group:
    """The group of some of `count` workers.

    Raises:
        UsageError: It is empty, names a worker twice, or one that there is not.
    """
    try:
        found = sorted(operator.index(worker) for worker in workers)
    except TypeError as error:
        raise UsageError(
            f"tfdist.group expects indices of workers, such as tfdist.group([0, 2]). Received: {safe_repr(workers)}"
        ) from error
    if not found or len(set(found)) < len(found) or not 0 <= found[0] <= found[-1] < count:
        raise UsageError(
            f"tfdist.group expects one or more of the workers 0 to {count - 1}, each once. Received: "
            f"{safe_repr(workers)}"
        )
    return Group(tuple(found))


def check_member(group: Group, worker: int, call: str) -> None:
    """Raises where a worker calls a collective of a group that it is not in.

    Raises:
        UsageError: It is not in the group.
    """
    if worker not in group:
        raise UsageError(
            f"{call} in a group is called by its workers alone, {_texts(group.workers)}. Received: a call on worker "
            f"{worker}. Call it in `if tfdist.worker_index() in group:`."
        )


def check_root(name: str, root: object, group: Group, call: str) -> int:
    """The worker that an argument names.

    Args:
        name: The argument's name.
        root: What it was given: a worker's index in the job, not in the group.
        group: The workers that it may be.
        call: The function that was called.

    Raises:
        UsageError: It is none of them.
    """
    try:
        found = operator.index(root)  # type: ignore[arg-type]
    except TypeError:
        found = -1
    if found not in group:
        raise UsageError(
            f"{call} expects {name} to be one of the workers {_texts(group.workers)}. Received: "
            f"{name}={safe_repr(root)}"
        )
    return found


def group_key(workers: tuple[int, ...], count: int) -> int:
    """The key of a group, the same on all workers without a word between them, and different for each group.

    Args:
        workers: Of the group, ascending.
        count: Of all.
    """
    if len(workers) == count:
        return EVERYONE
    if count <= _MOST_NUMBERED:
        return _PARTS + sum(1 << worker for worker in workers)
    return _PARTS + zlib.crc32(repr(workers).encode()) % _PARTS


def is_pair(key: int) -> bool:
    """Returns whether a key is that of a pair: what one worker sends to another."""
    return _PAIRS <= key < _PARTS


def pair_key(sender: int, receiver: int, count: int) -> int:
    """The key for what one worker sends to another; the other direction has another."""
    return _PAIRS + sender * count + receiver


def _texts(workers: tuple[int, ...]) -> str:
    return ", ".join(map(str, workers))


_T = TypeVar("_T")

_FIRST_TRACED_KEY = 1 << 30
"""Keys of traced calls lie above, those of eager ones below."""

_STRIDE = 48_271
"""Odd, so that calls that carry the same have keys of their own for each size."""


class Lane:
    """One worker's end of a group of workers.

    Eager calls run in the order in which they are made, whether somebody waits for them or not: the main thread's in
    the main thread as long as none is under way elsewhere, the others in a thread of the lane. So workers whose calls
    come in the same order meet in the same ones.

    Args:
        workers: The group's.
        worker: This one.
        group_key: The group's key, which no other group has.
    """

    def __init__(self, workers: tuple[int, ...], worker: int, group_key: int) -> None:
        self.workers = workers
        self._place = workers.index(worker)
        self._group_key = group_key
        self._eager_keys: dict[Hashable, int] = {}
        self._lock = threading.Lock()
        self._last: concurrent.futures.Future[Any] | None = None

    def eager_channel(self, carried: Hashable) -> Channel:
        """The channel of an eager primitive: one for each that carries as much of the same.

        Call it on all workers of the lane in the same order.
        """
        return self._channel(self._eager_keys.setdefault(carried, 1 + len(self._eager_keys)))

    def traced_channel(self, carried: str, size: int | tf.Tensor) -> Channel:
        """The channel of a traced primitive, by what it carries and its size, which may be known in the graph alone.

        TensorFlow binds a key to one size. A key does not depend on what was traced before: a worker that traces a
        function once more than the others, for inputs of its own, meets them all the same. TensorFlow runs the
        collectives of a function one after another.
        """
        start = zlib.crc32(carried.encode()) % _FIRST_TRACED_KEY
        if isinstance(size, int):
            return self._channel(_FIRST_TRACED_KEY + (start + size * _STRIDE) % _FIRST_TRACED_KEY)
        moving = (start + tf.cast(size, tf.int64) % _FIRST_TRACED_KEY * _STRIDE) % _FIRST_TRACED_KEY
        return self._channel(tf.cast(_FIRST_TRACED_KEY + moving, tf.int32))

    def _channel(self, key: int | tf.Tensor) -> Channel:
        return Channel(self.workers, self._place, self._group_key, key)

    @functools.cached_property
    def _thread(self) -> LaneThread:
        thread = LaneThread()
        thread.start()
        return thread

    def run(self, work: Callable[[], _T]) -> _T:
        """Runs a call and returns its result."""
        if threading.current_thread() is threading.main_thread() and (self._last is None or self._last.done()):
            with self._lock:
                return work()
        # The watchdog looks at main threads and lanes alone.
        return self.submit(work).result()

    def submit(self, work: Callable[[], _T]) -> concurrent.futures.Future[_T]:
        """Runs a call in the lane's thread."""
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._last = future
        self._thread.calls.put(lambda: _settle(future, work, self._lock))
        return future


class Lanes:
    """The lanes of one worker, made as they are needed.

    Args:
        worker: Its index.
        workers: How many there are.
    """

    def __init__(self, worker: int, workers: int) -> None:
        self._worker = worker
        self._workers = workers
        self._made: dict[int, Lane] = {}
        self._lock = threading.Lock()

    def of(self, workers: tuple[int, ...]) -> Lane:
        """The lane of a group of workers, ascending."""
        return self._lane(workers, group_key(workers, self._workers))

    def between(self, sender: int, receiver: int) -> Lane:
        """The lane from one worker to another; the other direction has its own, as their calls come in either order."""
        ends = (min(sender, receiver), max(sender, receiver))
        return self._lane(ends, pair_key(sender, receiver, self._workers))

    def _lane(self, workers: tuple[int, ...], key: int) -> Lane:
        with self._lock:
            if key not in self._made:
                self._made[key] = Lane(workers, self._worker, key)
            return self._made[key]


class LaneThread(threading.Thread):
    """Runs the calls of one lane, one after another. The process's watchdog bounds how long each of them may take.

    Attributes:
        calls: What it is to run.
    """

    def __init__(self) -> None:
        super().__init__(name="tfdist-collectives", daemon=True)
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        """Runs calls until the process ends."""
        while True:
            self.calls.get()()


def _settle(future: concurrent.futures.Future[_T], work: Callable[[], _T], lock: threading.Lock) -> None:
    try:
        with lock:
            result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
