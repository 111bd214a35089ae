"""The backward pass reads weights that are put together again, so that none of them lies there in full from forward on.

A gradient's operations name the tensors of the forward pass, and TensorFlow keeps what they name. Where the gradient of
a weight is complete, all operations of the backward pass that read the weight are in the graph; they are given another
tensor with the same values, which is put together when the backward pass comes there. Nothing is computed twice but
what was made of the weight alone, such as its transpose. A weight that the pass takes no gradient by, such as a frozen
one, has its turn likewise where a gradient flows through its layer to others, and none where it does not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.sharded_parameters.full_reads import FullRead, note_read
from tfdist.keras_repairs.sharded_parameters.tape_calls import TapeCall, current_call, inside, take_eagerly

Function = Callable[..., Any]

_OF_ONE_TENSOR = frozenset({"Identity", "Cast", "Reshape", "Transpose", "ExpandDims", "Squeeze", "StridedSlice"})
"""Operations whose other inputs, if they are constants, make the result one of the weight alone."""

_LINEAR = frozenset({"BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum", "MatMul"})
"""Operations whose gradient by one input does not read that input."""

_HARMLESS = frozenset({"ReadVariableOp"})
"""Operations with a state that do not wait for other workers."""


class _BackwardPass(TapeCall):
    """A backward pass that is being traced.

    Args:
        sources: What it takes gradients by.

    Attributes:
        graph: In which.
        begin: The number of the last operation before it.
        copied: The reads of weights that were put together again for operations that are computed again.
        over: The reads that were put together again, and those whose gradient is complete.
        ahead: The one that is put together for a layer to which the pass has not come yet, and its full value.
    """

    def __init__(self, sources: Any) -> None:
        super().__init__(sources)
        self.graph: Any = tf.compat.v1.get_default_graph()
        operations = self.graph.get_operations()
        self.begin: int = operations[-1]._id if operations else -1
        self.copied: list[FullRead] = []
        self.over: set[FullRead] = set()
        self.ahead: tuple[FullRead, tf.Tensor] | None = None

    @functools.cached_property
    def reached(self) -> frozenset[int]:
        """The numbers of the operations of the forward pass through which gradients flow to the sources."""
        return self.reached_in(self.graph, self.begin)

    def needs(self, read: FullRead) -> bool:
        """Returns whether gradients that flow to the sources are computed of the weight that was read."""
        sources = _of_weight_alone(read.full, self.begin)
        return any(self._is_needed_by(op, source) for source in sources for op in source.consumers())

    def _is_needed_by(self, op: Any, weight: tf.Tensor) -> bool:
        if op.type not in _LINEAR:
            return op._id in self.reached
        return op._id <= self.begin and any(
            tensor is not weight and tensor.op._id in self.reached for tensor in op.inputs
        )


_READS: AttachedValue[dict[tuple[int, int], FullRead]] = AttachedValue("reads_of_weights")
"""Of a graph: the weights that were put together there, by the number of the operation and which output it is."""


def note_full(read: FullRead) -> None:
    """Notes what a weight was put together as, for `read_of`."""
    graph = getattr(read.full, "graph", None)
    if graph is not None:
        _READS.get_or_make(graph, dict)[read.full.op._id, read.full.value_index] = read


def read_of(tensor: tf.Tensor) -> FullRead | None:
    """The weight that a tensor of a graph has in full; None where it is something else."""
    return (_READS.get(tensor.graph) or {}).get((tensor.op._id, tensor.value_index))


def is_of_weight_alone(op: Any) -> bool:
    """Returns whether an operation makes something of nothing but a weight that was put together, such as its
    transpose."""
    if op.type not in _OF_ONE_TENSOR or not all(tensor.op.type == "Const" for tensor in op.inputs[1:]):
        return False
    return read_of(op.inputs[0]) is not None or is_of_weight_alone(op.inputs[0].op)


def gather_for_copy(read: FullRead) -> tf.Tensor:
    """A weight, put together again in the backward pass that is traced, for all who read it there."""
    now = _current_pass()
    assert now is not None, "operations are computed again in a backward pass"
    now.copied.append(read)
    now.over.add(read)
    if now.ahead is not None and now.ahead[0] is read:
        full, now.ahead = now.ahead[1], None
        return full
    return read.join(tf.identity(read.shard))


def gradient(original: Function) -> Function:
    """Repairs `tf.GradientTape.gradient`: what is traced inside is a backward pass."""

    def repaired(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():
            return take_eagerly(functools.partial(original, self), target, sources, *args, **kwargs)
        call = _BackwardPass(sources)
        with inside(call):
            try:
                return original(self, target, sources, *args, **kwargs)
            finally:
                note_read(call.graph, None)

    return repaired


def is_gradient_taken(variable: tf.Variable) -> bool:
    """Returns whether the innermost tape takes a gradient by a variable; True where no tape does, but TensorFlow by
    itself."""
    call = current_call()
    return call is None or call.has(variable)


def _current_pass() -> _BackwardPass | None:
    call = current_call()
    return call if isinstance(call, _BackwardPass) else None


def leads_to_sources(tensors: Iterable[tf.Tensor]) -> bool:
    """Returns whether the backward pass that is traced takes gradients by what tensors of its forward pass were
    computed of."""
    now = _current_pass()
    return now is None or any(tensor.op._id in now.reached for tensor in tensors)


def gather_again(reads: Iterable[FullRead], complete: FullRead, *, is_ahead: bool = False) -> None:
    """Lets the backward pass that is traced read weights of one layer that are put together again.

    Args:
        reads: Of the layer. Those whose readers are not there yet have another turn.
        complete: The one whose gradient is complete.
        is_ahead: Whether the weight to which the pass comes next is put together while it computes with these. That is
            traced here, before the sum of this gradient, as workers meet in the order in which it is traced.
    """
    now = _current_pass()
    if now is None:
        return
    here = [read for read in reads if getattr(read.full, "graph", None) is now.graph and read not in now.copied]
    found = [_gather_again(read, now) for read in here if now.needs(read)]
    now.over.add(complete)
    if now.ahead is not None and now.ahead[0] is complete:
        now.ahead = None
    begins = [wanted for wanted in found if wanted is not None]
    if is_ahead and begins and now.ahead is None:
        _gather_ahead(complete, begins[-1], now)


def _gather_ahead(complete: FullRead, begin: list[tf.Tensor], now: _BackwardPass) -> None:
    """Puts the weight together that was read before, when `begin` is there; one at a time, and none without readers."""
    read = complete.earlier
    while read is not None and (read in now.over or not now.needs(read)):
        read = read.earlier
    if read is not None and read.is_read_again:
        with now.graph.as_default(), tf.control_dependencies(begin):
            now.ahead = read, read.join(tf.identity(read.shard))


def _gather_again(read: FullRead, now: _BackwardPass) -> list[tf.Tensor] | None:
    """Returns what the first of the readers waits for besides; None where there are none."""
    sources = list(_of_weight_alone(read.full, now.begin))
    readers = {op._id: op for source in sources for op in source.consumers() if op._id > now.begin}
    if not readers:
        return None
    ahead = now.ahead[1] if now.ahead is not None and now.ahead[0] is read else None
    needed = _needed_by_meetings(now.graph, min(readers), None if ahead is None else ahead.op._id)
    readers = {number: op for number, op in readers.items() if number not in needed}
    if not readers:
        return None
    first = readers[min(readers)]
    wanted = [tensor for tensor in first.inputs if tensor.op._id > now.begin]
    with now.graph.as_default(), tf.control_dependencies(wanted):
        again = {id(read.full): read.join(tf.identity(read.shard)) if ahead is None else ahead}
        for source in sources[1:]:
            again[id(source)] = _made_again(source, again)
    by_id = {id(source): source for source in sources}
    for op in readers.values():
        for place, tensor in enumerate(op.inputs):
            source = next((key for key, known in by_id.items() if known is tensor), None)
            if source is not None:
                op._update_input(place, again[source])
    now.over.add(read)
    return wanted


def _of_weight_alone(full: tf.Tensor, begin: int) -> Iterator[tf.Tensor]:
    """A weight, and what the forward pass has made of nothing but it, each after what it was made of."""
    yield full
    for op in full.consumers():
        if op._id > begin or op.type not in _OF_ONE_TENSOR:
            continue
        if all(tensor is full or tensor.op.type == "Const" for tensor in op.inputs):
            yield from _of_weight_alone(op.outputs[0], begin)


def _made_again(source: tf.Tensor, again: dict[int, tf.Tensor]) -> tf.Tensor:
    op = source.op
    inputs = [again.get(id(tensor), tensor) for tensor in op.inputs]
    attributes = {name: op.node_def.attr[name] for name in op.node_def.attr if not name.startswith("_")}
    made = op.graph.create_op(op.type, inputs, [source.dtype], attrs=attributes, op_def=op.op_def)
    return made.outputs[0]


def _needed_by_meetings(graph: Any, begin: int, end: int | None) -> set[int]:
    """The numbers of those operations from `begin` on that must run before workers meet, in operations up to `end`.

    TensorFlow runs meetings in the order in which they are traced. What is put together in one comes after all that
    were traced before it, those up to `end` or where it is None all, and cannot be waited for by what they wait for.
    """
    recent = list(itertools.takewhile(lambda op: op._id >= begin, reversed(graph.get_operations())))
    met = [op for op in recent if end is None or op._id <= end]
    return _before([op for op in met if _is_meeting(op)], begin)


def needed_by(graph: Any, operations: Iterable[Any], begin: int) -> set[int]:
    """The numbers of the operations from `begin` on that run before some others, by what they read or by the meetings.

    A weight that is put together again is read by operations that were traced before it was: their numbers do not tell.

    Args:
        graph: In which they are traced.
        operations: The others, which are among them.
        begin: The number of the first operation that counts.

    Returns:
        None of them where no weights are put together in the graph: then each is before those that are traced later.
    """
    if not _READS.get(graph):
        return set()
    found = _before(list(operations), begin)
    traced = itertools.takewhile(lambda op: op._id >= begin, reversed(graph.get_operations()))
    meetings = [op for op in traced if _is_meeting(op)]
    last = max((op._id for op in meetings if op._id in found), default=-1)
    return found | _before([op for op in meetings if op._id <= last], begin)


def _is_meeting(op: Any) -> bool:
    return op.op_def.is_stateful and op.type not in _HARMLESS


def _before(waiting: list[Any], begin: int) -> set[int]:
    """The numbers of operations from `begin` on and of those that they wait for."""
    found: set[int] = set()
    while waiting:
        op = waiting.pop()
        if op._id >= begin and op._id not in found:
            found.add(op._id)
            waiting.extend(tensor.op for tensor in op.inputs)
            waiting.extend(op.control_inputs)
    return found
