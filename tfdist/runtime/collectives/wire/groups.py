"""Groups: the workers that take part in a collective, and the keys by which groups are told apart."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from tfdist.errors import UsageError
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
