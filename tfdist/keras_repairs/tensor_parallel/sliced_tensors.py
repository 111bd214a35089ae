"""Tensors of which each worker of a group has a slice, in a graph where all code sees the full one.

What stands for the full tensor is a placeholder, or follows from placeholders. Operations that compute with slices what
follows from slices (`operation_rules`) run on the slices; where any other one is created, it is given the full tensor,
which is exchanged just before. A placeholder that nothing replaces has no value: TensorFlow would refuse to run it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_step import current_step, is_alone, is_tried_out
from tfdist.keras_repairs.base.size_origins import sized_as, with_rows_of
from tfdist.keras_repairs.tensor_parallel.row_exchanges import gathered, gradient_of_slices, own_rows
from tfdist.runtime.transport.emulated_replicas import emulated_replica
from tfdist.sharding.mesh import ShardGroup


@dataclass(eq=False)
class SlicedTensor(ABC):
    """A tensor of which this worker has a slice.

    Attributes:
        slice: The slice; of rows, that of the rows of all workers of the group.
        axis: Along which the full tensor is cut.
        bounds: The places along the axis where the slices begin, and where the last one ends.
        group: The workers that have the slices.
    """

    slice: tf.Tensor
    axis: int
    bounds: tuple[int, ...]
    group: ShardGroup

    @abstractmethod
    def full(self) -> tf.Tensor:
        """The full tensor; of rows, with this worker's rows."""

    @property
    @abstractmethod
    def source(self) -> tf.Tensor:
        """What the gradient of the full tensor is taken on to."""

    @abstractmethod
    def gradient(self, upstream: Any) -> Any:
        """The gradient by `source`, of one by the full tensor."""

    def is_cut_like(self, other: SlicedTensor) -> bool:
        """Returns whether another tensor, whose axes are aligned with this one's at the end, is cut in the same way."""
        from_end = (self.axis - self.slice.shape.rank, other.axis - other.slice.shape.rank)
        return from_end[0] == from_end[1] and self.bounds == other.bounds and self.group == other.group


@dataclass(eq=False)
class SlicedWeight(SlicedTensor):
    """A weight, or what follows from nothing but weights.

    Attributes:
        join: Puts the full tensor together.
        stored: What the worker stores of the weight; None where this only follows from it.
        summed: Sums gradients by the full weight into what this worker stores, likewise.
    """

    join: Callable[[], tf.Tensor]
    stored: tf.Tensor | None = None
    summed: Callable[[Any], Any] | None = None

    def full(self) -> tf.Tensor:
        return self.join()

    @property
    def source(self) -> tf.Tensor:
        assert self.stored is not None, "of what follows from a weight the weight's has a gradient"
        return self.stored

    def gradient(self, upstream: Any) -> Any:
        assert self.summed is not None, "as above"
        return self.summed(upstream)


@dataclass(eq=False)
class SlicedRows(SlicedTensor):
    """What a worker has computed of the rows of all workers of its group, cut along another axis than that of the rows.

    Attributes:
        counts: How many rows are of each worker, int64 `[workers]`.
        origin: A tensor with this worker's rows, from which it follows.
    """

    counts: tf.Tensor
    origin: tf.Tensor
    _full: list[tf.Tensor] = field(default_factory=list)

    def full(self) -> tf.Tensor:
        if self._full:
            return self._full[0]
        rows = with_rows_of(own_rows(self.slice, self.axis, self.bounds, self.counts, self.group), self.origin)
        # In a function whose gradient is its own, nothing is recorded: who reads it later needs another one.
        if not pywrap_tfe.TFE_Py_TapeSetIsStopped():
            self._full.append(rows)
        return rows

    def forget(self) -> None:
        """Has the full tensor exchanged again."""
        self._full.clear()

    @property
    def source(self) -> tf.Tensor:
        return self.slice

    def gradient(self, upstream: Any) -> Any:
        return gradient_of_slices(tf.convert_to_tensor(upstream), self.axis, self.bounds, self.group)

    def of_its_shape(self) -> tf.Tensor:
        """A tensor of the shape of the full one, of zeros."""
        shape = tf.unstack(tf.shape(self.slice, tf.int64))
        shape[0] = self.counts[self.group.share]
        shape[self.axis] = tf.constant(self.bounds[-1], tf.int64)
        return sized_as(tf.ensure_shape(tf.zeros(tf.stack(shape), self.slice.dtype), self.shape), self.origin)

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape of the full tensor."""
        sizes = [self.origin.shape[0], *self.slice.shape[1:]]
        sizes[self.axis] = self.bounds[-1]
        return tf.TensorShape(sizes)


@dataclass(eq=False)
class SizesOfRows:
    """The sizes of rows of which each worker has a slice.

    Attributes:
        rows: The rows.
        sizes: The sizes of the full tensor.
    """

    rows: SlicedRows
    sizes: tf.Tensor

    def full(self) -> tf.Tensor:
        """The sizes of the full tensor."""
        return self.sizes


@dataclass(frozen=True, eq=False)
class FullTensor:
    """A full tensor that workers have computed of slices, such as a sum over what is cut.

    Attributes:
        tensor: What takes the place of the result of the operation.
        sum_of: See `SumOfSlices`; None for anything else.
    """

    tensor: tf.Tensor
    sum_of: SlicedRows | None = None


@dataclass(frozen=True, eq=False)
class SumOfSlices:
    """What follows from nothing but sums over what is cut: own rows, of size 1 along the axis that is cut.

    It has all of it, and is computed with as anything that is full. Where slices of a weight meet it, such as the scale
    of a normalization, each worker computes with its slice for the rows of all.

    Attributes:
        rows: The rows that are cut, of the same number of axes.
    """

    rows: SlicedRows


Part: TypeAlias = "SlicedTensor | SizesOfRows | FullTensor | SumOfSlices | None"
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class SlicesOfGraph:
    """What stands for full tensors in a graph.

    Attributes:
        by_place: What this worker has of each, by its place.
        exchanged: What was exchanged of a worker's own rows, by their place, and what it was exchanged for.
        is_whole: Whether the code of the graph computes with full tensors alone.
    """

    by_place: dict[Place, Part] = field(default_factory=dict)
    exchanged: dict[Any, Any] = field(default_factory=dict)
    is_whole: bool = False


_SLICED: AttachedValue[SlicesOfGraph] = AttachedValue("sliced_tensors")
"""Of a graph."""

_NONE = SlicesOfGraph()


def computes_with_slices() -> bool:
    """Returns whether the code that is traced computes with slices: that of a replica's step, outside of branches and
    loops."""
    step = current_step()
    return (
        step is not None
        and not step.share.has_all_rows
        and not tf.executing_eagerly()
        and not isinstance(tf.compat.v1.get_default_graph(), ControlFlowFuncGraph)
        and not (_SLICED.get(tf.compat.v1.get_default_graph()) or _NONE).is_whole
        and not (is_alone() or is_tried_out() or emulated_replica() is not None)
    )


def compute_whole(graph: Any) -> None:
    """Has the code of a graph compute with full tensors alone."""
    _SLICED.set(graph, SlicesOfGraph(is_whole=True))


def standing_for(sliced: SlicedTensor, shape: Any) -> tf.Tensor:
    """Returns what stands for the full tensor, of this static shape, in the graph that is traced.

    Where a gradient comes to it all the same, as it does behind a function with a gradient of its own, it goes on to
    what the worker has.
    """

    @tf.custom_gradient
    def stand_in(_: tf.Tensor) -> tuple[tf.Tensor, Callable[[Any], Any]]:
        return tf.compat.v1.placeholder(sliced.slice.dtype, shape, name="tfdist_sliced"), sliced.gradient

    made = stand_in(sliced.source)
    if isinstance(sliced, SlicedRows):
        # Not those of the slice, which an exchange has made.
        sized_as(made, sliced.origin)
    note(made, sliced)
    return made


def sliced_of(tensor: Any) -> SlicedTensor | None:
    """What this worker has of a tensor of the graph that is traced; None where it has all of it."""
    # A sparse tensor has a graph, too.
    graph = getattr(tensor, "graph", None) if isinstance(tensor, tf.Tensor) else None
    if graph is None or graph is not tf.compat.v1.get_default_graph():
        return None
    found = known_in(graph).get(place_of(tensor))
    return found if isinstance(found, SlicedTensor) else None


def actual(tensor: Any, graph: Any) -> Any:
    """The full tensor that another one of a graph stands for; that itself where it stands for none."""
    if not isinstance(tensor, tf.Tensor) or getattr(tensor, "graph", None) is not graph:
        return tensor
    found = known_in(graph).get(place_of(tensor))
    return found.tensor if isinstance(found, FullTensor) else tensor


def actual_of(value: Any) -> Any:
    """`actual` in the graph that is traced, of a tensor or anything else."""
    return value if tf.executing_eagerly() else actual(value, tf.compat.v1.get_default_graph())


_OF_GLOBAL_BATCH = "_tfdist_of_global_batch"


def note_of_global_batch(tensor: tf.Tensor) -> tf.Tensor:
    """Marks a tensor of a graph that follows from the global batch, and is the same on all workers; returns it."""
    setattr(tensor.op, _OF_GLOBAL_BATCH, True)
    return tensor


def is_of_global_batch(operation: tf.Operation) -> bool:
    """Returns whether the results of an operation are marked so."""
    return getattr(operation, _OF_GLOBAL_BATCH, False)


def known_in(graph: Any) -> Mapping[Place, Part]:
    """What stands for full tensors in a graph, by their places."""
    return (_SLICED.get(graph) or _NONE).by_place


def place_of(tensor: tf.Tensor) -> Place:
    """The place of a tensor in its graph: the number of the operation, and which output it is."""
    return tensor.op._id, tensor.value_index


def note(tensor: tf.Tensor, sliced: Part) -> None:
    """Notes what this worker has of a tensor of a graph."""
    _SLICED.get_or_make(tensor.graph, SlicesOfGraph).by_place[place_of(tensor)] = sliced


def gathered_once(rows: tf.Tensor, group: ShardGroup, call: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of all workers, and how many each has: gathered once for all products in one call of a layer.

    Args:
        rows: This worker's.
        group: The workers.
        call: Stands for the call; None where every product gathers them. A tape may begin between two calls.
    """
    if call is None:
        return gathered(rows, group)
    return exchanged_once(rows, (group, call), lambda: gathered(rows, group))


def exchanged_once(rows: tf.Tensor, purpose: Any, exchange: Callable[[], Any]) -> Any:
    """What is exchanged of a worker's own rows for some purpose, once for all that asks for it."""
    known = _SLICED.get_or_make(tf.compat.v1.get_default_graph(), SlicesOfGraph).exchanged
    key = (place_of(rows), purpose)
    found = known[key] if key in known else exchange()
    # In a function whose gradient is its own, nothing is recorded: who reads the rows later needs others.
    if not pywrap_tfe.TFE_Py_TapeSetIsStopped():
        known[key] = found
    return found


def gather_anew() -> None:
    """Has rows exchanged again that were exchanged before: a tape that begins to record has not seen that."""
    slices = None if tf.executing_eagerly() else _SLICED.get(tf.compat.v1.get_default_graph())
    if slices is None:
        return
    slices.exchanged.clear()
    for part in slices.by_place.values():
        if isinstance(part, SlicedRows):
            part.forget()
