"""Descriptions of the datasets that tfdist.data has built, for `fit`: their order, their epochs and where they start.

A description is kept beside its dataset, for as long as that lives. A dataset that a script transforms further is
another one, without a description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import tensorflow as tf

from tfdist.order.epoch_span import Position


class FedBatches(Protocol):
    """Global batches that one worker of a host draws for all; see `host_feed`."""

    def open(self) -> tuple[tf.distribute.DistributedDataset, Any]:
        """The slices for one iterator, and the channel that they come from."""


class EpochCounter:
    """Counts the epochs that iterators over one dataset begin, in each of its parts that must know them.

    Args:
        first: The epoch of the first iterator.
    """

    def __init__(self, first: int = 0) -> None:
        self._next = first
        self._parts: list[int] = []

    def part(self) -> Callable[[], int]:
        """A function for one part of the dataset: each call returns the next epoch, which an iterator begins."""
        place = len(self._parts)
        self._parts.append(self._next)

        def take() -> int:
            self._parts[place] += 1
            return self._parts[place] - 1

        return take

    @property
    def next(self) -> int:
        """The epoch of the next iterator that is read."""
        return self._parts[0] if self._parts else self._next

    @next.setter
    def next(self, epoch: int) -> None:
        self._next = epoch
        self._parts[:] = [epoch] * len(self._parts)


Even: TypeAlias = Literal["all", "all but the last", "none"]
"""The batches of an epoch that are known to have equally many samples on all replicas."""


@dataclass(frozen=True)
class PipelineOrder:
    """The order of batches, where it is tfdist's own.

    Attributes:
        epochs: Counts the epochs; each iterator takes one.
        begin: Makes the batches of an epoch from one of its steps on.
        facts: What the order depends on, by name.
    """

    epochs: EpochCounter
    begin: Callable[[Position], Any]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class PartialEpoch:
    """The rest of an epoch that was begun before this process.

    Attributes:
        done: Steps of it that are done.
        batches: Makes the others, for one iterator; none where all are done.
    """

    done: int
    batches: Callable[[], Any]


@dataclass
class DatasetDescription:
    """The description of one dataset.

    Attributes:
        order: The order of its batches; None where it is not tfdist's own.
        partial_epoch: What a training on it begins with, until that takes it; None for a whole epoch.
        replica_batches: Makes the same batches as `ReplicaBatch`es, which save `fit` counting the samples of each
            global batch; called once, at first need.
        global_batches: What a script has distributed; None of what is distributed otherwise.
        even: Which batches of an epoch are known to have equally many samples on all replicas.
        of_only_replica: The batches of the worker's only replica, where that is on the CPU: the dataset that the
            distributed one hands on, through buffers and threads that such a replica does not need.
        fed: The same batches, drawn by one worker of this host for all of its workers, which an iterator is to take;
            None where each worker draws its own.
    """

    order: PipelineOrder | None = None
    partial_epoch: PartialEpoch | None = None
    replica_batches: Callable[[], tf.distribute.DistributedDataset] | None = None
    global_batches: tf.data.Dataset | None = None
    even: Even = "none"
    of_only_replica: tf.data.Dataset | None = None
    fed: FedBatches | None = None


# What describes a dataset must not refer to it, or neither would ever be freed.
_descriptions: WeakKeyDictionary[Any, DatasetDescription] = WeakKeyDictionary()


def even_batches(size: int, last: int, replicas: int) -> Even:
    """Returns which batches of an epoch are even: those of `size` samples, and a last one of `last`, which may be as
    large."""
    if size % replicas:
        return "none"
    return "all but the last" if last % replicas else "all"


def description_of(batches: Any) -> DatasetDescription:
    """The description of a dataset, to read and to change; an empty one of a dataset that is not tfdist's."""
    return _descriptions.setdefault(batches, DatasetDescription())


def take_partial_epoch(batches: Any) -> PartialEpoch | None:
    """The rest of an epoch with which a training on `batches` starts; once, afterwards None."""
    description = description_of(batches)
    rest, description.partial_epoch = description.partial_epoch, None
    return rest
