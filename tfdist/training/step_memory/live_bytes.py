"""Live bytes: the most that the tensors of a graph take at one moment, when its operations run in their order.

An estimate: the executor may run operations in another order and side by side, optimizes the graph first, and kernels
take workspaces of their own. What loops and called functions hold inside is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

_SAME_MEMORY = frozenset(
    (
        "Identity", "IdentityN", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "Enter", "Exit",
        "CheckNumerics", "EnsureShape", "ReadVariableOp",
    )
)
"""Operations whose output is the memory of their first input."""

_NO_MEMORY = frozenset(
    (
        "BroadcastGradientArgs",
        "VarHandleOp", "Const", "Placeholder", "NoOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    )
)
"""Operations whose outputs a step does not allocate: weights, constants, the batch."""

_IN_PLACE = frozenset(
    (
        "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Ceil", "Div", "Elu", "EluGrad", "Erf", "Exp", "Expm1", "Floor",
        "FusedBatchNorm", "FusedBatchNormV3", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p", "LogSoftmax", "Maximum",
        "Minimum", "Mul", "Neg", "Pow", "RealDiv", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt",
        "RsqrtGrad", "SelectV2", "Select", "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad", "Sign", "Sin", "Softmax",
        "Softplus", "SoftplusGrad", "Softsign", "Sqrt", "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh",
        "TanhGrad", "Xdivy",
    )
)
"""Operations whose kernels write over an input that nobody else needs, where its size is that of the output."""


@dataclass(frozen=True)
class LiveBytes:
    """The memory that the tensors of a graph take.

    Attributes:
        peak: Bytes at most at one moment.
        unknown: Kinds of the operations that make tensors of no known size, which count as nothing.
    """

    peak: int
    unknown: tuple[str, ...]


def live_bytes(targets: Sequence[tf.Tensor | tf.Operation], given: Collection[tf.Tensor] = ()) -> LiveBytes:
    """The most that the tensors take by which others are computed, those themselves included.

    Args:
        targets: What is computed or run, of one graph; tensors are held until the end.
        given: Tensors that are counted elsewhere, and what they are computed by.
    """
    held = [target for target in targets if isinstance(target, tf.Tensor)]
    operations = _needed(targets, {tensor.ref() for tensor in given} - {tensor.ref() for tensor in held})
    buffers = _Buffers({tensor.ref() for tensor in given})
    last = {}
    for place, operation in enumerate(operations):
        for tensor in operation.inputs:
            last[tensor.ref()] = place
    for tensor in held:
        last[tensor.ref()] = len(operations)
    for place, operation in enumerate(operations):
        buffers.run(operation, {output.ref(): last.get(output.ref(), place) for output in operation.outputs}, place)
    return LiveBytes(buffers.peak, tuple(sorted(buffers.unknown)))


def _needed(targets: Iterable[tf.Tensor | tf.Operation], given: Collection[object]) -> list[tf.Operation]:
    """The operations that targets need, in the graph's order; none of those that only what is given needs."""
    waiting = [target.op if isinstance(target, tf.Tensor) else target for target in targets]
    found: set[tf.Operation] = set()
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting.extend(tensor.op for tensor in operation.inputs if tensor.ref() not in given)
            waiting.extend(operation.control_inputs)
    graphs = {operation.graph for operation in found}
    return [operation for graph in graphs for operation in graph.get_operations() if operation in found]


@dataclass
class _Buffer:
    """Memory that one tensor or several share.

    Attributes:
        size: Bytes.
        last: The place of the operation that uses it last.
    """

    size: int
    last: int


class _Buffers:
    """The memory of a graph's tensors while its operations run one after another."""

    def __init__(self, uncounted: Collection[object]) -> None:
        self.peak = 0
        self.unknown: set[str] = set()
        self._uncounted = uncounted
        self._of: dict[object, _Buffer] = {}
        self._live: list[_Buffer] = []
        self._taken = 0

    def run(self, operation: tf.Operation, last: dict[object, int], place: int) -> None:
        """Makes the outputs of an operation, and frees what is needed no more."""
        for output in operation.outputs:
            self._make(operation, output, last[output.ref()], place)
        self.peak = max(self.peak, self._taken)
        kept = [buffer for buffer in self._live if buffer.last > place]
        self._taken = sum(buffer.size for buffer in kept)
        self._live = kept

    def _make(self, operation: tf.Operation, output: tf.Tensor, last: int, place: int) -> None:
        size = self._size(operation, output)
        shared = self._shared(operation, size, place)
        if shared is not None:
            shared.last = max(shared.last, last)
            self._of[output.ref()] = shared
            return
        buffer = self._of[output.ref()] = _Buffer(size, last)
        if size:
            self._live.append(buffer)
            self._taken += size

    def _shared(self, operation: tf.Operation, size: int, place: int) -> _Buffer | None:
        """The input's memory that an output of so many bytes gets."""
        inputs = [self._of[tensor.ref()] for tensor in operation.inputs if tensor.ref() in self._of]
        if operation.type in _SAME_MEMORY:
            return next(iter(inputs), None)
        if operation.type in _IN_PLACE:
            return next((buffer for buffer in inputs if buffer.last == place and buffer.size == size > 0), None)
        return None

    def _size(self, operation: tf.Operation, output: tf.Tensor) -> int:
        if operation.type in _NO_MEMORY or output.ref() in self._uncounted or output.dtype == tf.resource:
            return 0
        shape = output.shape
        if not shape.is_fully_defined() or output.dtype in (tf.variant, tf.string):
            self.unknown.add(operation.type)
            return 0
        return math.prod(shape.as_list()) * output.dtype.size
