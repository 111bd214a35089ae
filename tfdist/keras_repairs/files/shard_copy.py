"""Copies what this worker writes of a checkpoint whose weights and optimizer's state the workers share.

The shards are ranges of the file that one device would write. Keras's own store writes that file once on the chief, in
memory, without the values that are shared: their places in it are what is kept. Weights and slots that every worker has
in full are shared, too, so that each writes as much as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.files.hdf5_files import SparseFile, aligned_memory
from tfdist.keras_repairs.files.weights_copy import (
    Group,
    WeightsWalk,
    array_of,
    bytes_of,
    layout_of,
    named,
    values_of,
    write_groups,
)
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded, shards_of
from tfdist.runtime.transport.shard_collectives import cut_shard
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.cut import evenly
from tfdist.sharding.file_shards import FileShards, Segment, SharedValue, SharedWriting, Writing
from tfdist.sharding.sharding_mode import WHOLE_BELOW


def is_shared(model: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether workers have shards of a built model or of its optimizers; the same on all of them."""
    return worker_count(strategy) > 1 and bool(shards_of(model))


def ids_of_alike(model: Any) -> set[int]:
    """The ids of variables with the same values on all workers, where these have them in full: weights and their slots.

    What gradients are accumulated in is among them where workers have shards of the optimizer, as with sharded tables:
    these are sums over all workers. Otherwise each worker has sums of its own.
    """
    found = {id(variable) for variable in model.trainable_weights}
    for optimizer in optimizers_of(model):
        found |= {id(variable) for variable in optimizer.variables}
    for optimizer in optimizers_of(model):
        if not is_sharded(optimizer):
            found -= {id(variable) for variable in getattr(optimizer, "_accumulated_gradients", None) or ()}
    return found


@dataclass(frozen=True)
class _Shared:
    """A value that workers share.

    Attributes:
        writing: How.
        dtype: NumPy's.
        read: This worker's shard, as a tensor.
    """

    writing: Writing
    dtype: np.dtype
    read: Callable[[], tf.Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.writing.shape

    def size(self, worker: int) -> int:
        """Bytes that a worker writes."""
        return self.writing.size(worker) * self.dtype.itemsize

    def written(self, worker: int) -> NDArray[np.uint8]:
        """Returns what this worker writes."""
        start, stop = (place * self.dtype.itemsize for place in self.writing.span(worker))
        return bytes_of(self.read())[start:stop]

    def values(self, begin: int) -> list[SharedValue]:
        return self.writing.values(begin, self.dtype.itemsize)


class ShardCopy:
    """The latest copy of this worker's shard, in host memory. All workers call `take` together.

    Args:
        model: Built and compiled, with its optimizer.
        strategy: The strategy in force.
    """

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy) -> None:
        self._model = model
        self._worker, self._workers = worker_rank(strategy), worker_count(strategy)
        self._walk = WeightsWalk(model)
        self._layout: list[object] = []
        self._own: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._structure: _Structure | None = None

    def take(self) -> None:
        """Copies this worker's shard; between two batches, in the main thread, and while nobody reads `content`."""
        groups = self._walk.groups()
        shared = self._shared(groups)
        layout = [*map(layout_of, groups), [None if each is None else each.writing for each in shared]]
        if layout != self._layout:
            self._own = np.empty(0, np.uint8)  # what was there is not needed beside the new one
            self._own = aligned_memory(sum(each.size(self._worker) for each in shared if each is not None))
            self._structure = _Structure(groups, shared, self._workers) if self._worker == 0 else None
            self._layout = layout
        elif self._structure is not None:
            self._structure.refresh(groups, shared)
        begin = 0
        for each in filter(None, shared):
            end = begin + each.size(self._worker)
            if begin == end:
                continue
            np.copyto(self._own[begin:end], each.written(self._worker))
            begin = end

    def content(self) -> memoryview:
        """This worker's bytes; in any thread. They change with the next `take`."""
        return self._own.data

    def rest(self) -> memoryview:
        """On the chief, the bytes of the file that no worker's shard has."""
        assert self._structure is not None, "the chief has taken a copy"
        return self._structure.rest.data

    @property
    def shards(self) -> FileShards:
        """On the chief, which bytes of the file each worker has."""
        assert self._structure is not None, "the chief has taken a copy"
        return self._structure.shards

    def _shared(self, groups: Sequence[Group]) -> list[_Shared | None]:
        """For each value of the file how it is shared; None for one that the chief writes."""
        shards = {id(shard.variable): shard for shard in shards_of(self._model)}
        alike = ids_of_alike(self._model)
        found: list[_Shared | None] = []
        for value in values_of(groups):
            shard = shards.get(id(value))
            if shard is not None and 0 not in shard.full_shape:
                found.append(_Shared(shard.writing(self._workers), _dtype(shard.stored), shard.stored.read_value))
            elif shard is None and id(value) in alike and _is_large(value):
                found.append(self._full_on_all(value))
            else:
                found.append(None)
        return found

    def _full_on_all(self, variable: keras.Variable) -> _Shared:
        cut = evenly(tuple(variable.shape), self._workers)

        def read() -> tf.Tensor:
            return cut_shard(tf.convert_to_tensor(variable.value), cut, self._worker)

        return _Shared(SharedWriting(cut), _dtype(variable.value), read)


class _Structure:
    """The chief's: the file without what is shared.

    Args:
        groups: What Keras stores.
        shared: For each value how it is shared.
        workers: By how many.

    Attributes:
        shards: Which bytes of the file each worker has.
        rest: All other bytes.
    """

    def __init__(self, groups: Sequence[Group], shared: Sequence[_Shared | None], workers: int) -> None:
        file = SparseFile()
        write_groups(file, groups, _stand_ins(groups, shared))
        begins = _begins(file, [name for name, _ in named(groups)])
        values = [
            value
            for begin, each in zip(begins, shared, strict=True)
            if each is not None
            for value in each.values(_known(begin))
        ]
        self.shards = FileShards(file.size, workers, tuple(values))
        gaps = self.shards.gaps
        self.rest = aligned_memory(self.shards.rest_size)
        for gap in gaps:
            end = gap.offset + gap.size
            self.rest[gap.offset : end] = file.bytes_between(gap.begin, gap.begin + gap.size)
        self._offsets = [
            None if each is not None or begin is None else _offset(begin, gaps)
            for begin, each in zip(begins, shared, strict=True)
        ]

    def refresh(self, groups: Sequence[Group], shared: Sequence[_Shared | None]) -> None:
        """Copies the values that are not shared, which have the places that they had."""
        for offset, each, value in zip(self._offsets, shared, values_of(groups), strict=True):
            if each is None and offset is not None:
                content = bytes_of(value)
                self.rest[offset : offset + len(content)] = content


def _stand_ins(groups: Sequence[Group], shared: Sequence[_Shared | None]) -> Iterator[np.ndarray]:
    """Yields what is written for each value: zeros for one that is shared, which take no memory in the file."""
    for value, each in zip(values_of(groups), shared, strict=True):
        yield array_of(value) if each is None else np.zeros(each.shape, each.dtype)


def _begins(file: SparseFile, names: Sequence[str]) -> list[int | None]:
    """The place of each value in the file; None for one without any bytes.

    Raises:
        UnsupportedError: One is not stored in one piece, as it is.
    """
    found = []
    with h5py.File(file, "r") as content:
        for name in names:
            data = content[name]
            if data.nbytes and (data.chunks is not None or data.id.get_offset() is None):
                raise UnsupportedError(
                    f"Keras's store writes {name} in pieces, and a checkpoint in parts needs it in one. Expected a "
                    "store that writes plain arrays. Train with --shard none, or leave out what changes how HDF5 "
                    "writes."
                )
            found.append(data.id.get_offset() if data.nbytes else None)
    return found


def _known(begin: int | None) -> int:
    assert begin is not None, "a value that is shared has bytes"
    return begin


def _offset(begin: int, gaps: Sequence[Segment]) -> int:
    """Returns where in the rest the byte of a place in the file is."""
    gap = next(gap for gap in gaps if gap.begin <= begin < gap.begin + gap.size)
    return gap.offset + begin - gap.begin


def _dtype(value: Any) -> np.dtype:
    return np.dtype(value.dtype.as_numpy_dtype)


def _is_large(variable: Any) -> bool:
    """Returns whether a weight that all workers have in full is large enough to be shared."""
    is_of_all = isinstance(variable._value, tf.distribute.DistributedValues)
    return is_of_all and int(np.prod(variable.shape)) >= WHOLE_BELOW
