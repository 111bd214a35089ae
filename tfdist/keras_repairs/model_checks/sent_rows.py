"""What a step sends of the rows with which layers compute in slices, from a step that is traced for a plan."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.layers.convolutional.base_conv import BaseConv

from tfdist.plan.memory.step_sizes import SentRows

_JOINING = {"All", "Any", "ArgMax", "FusedBatchNorm", "FusedBatchNormV3", "Max", "Mean", "Min", "Sum"}
"""Operations through which a tensor does not stay cut along its features, but for a softmax of its own."""

_PRODUCTS = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Embedding, BaseConv)


@dataclass(frozen=True)
class LayerCall:
    """A call of a layer.

    Attributes:
        layer: The layer.
        rows: The first tensor that it is given.
        outputs: What it returns, a tensor.
        around: The call of a layer in which it is, with whose other products it shares rows; None outside of one.
    """

    layer: Any
    rows: tf.Tensor
    outputs: tf.Tensor
    around: Any


@contextlib.contextmanager
def noted_calls() -> Iterator[list[LayerCall]]:
    """Inside, calls of layers that take a tensor and return one are noted, in their order."""
    found: list[LayerCall] = []
    original = keras.Layer.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        scopes = global_state.get_global_attribute("name_scope_stack") or []
        outputs = original(self, *args, **kwargs)
        if args and isinstance(args[0], tf.Tensor) and isinstance(outputs, tf.Tensor):
            around = scopes[-1] if scopes else None
            caller = getattr(around, "caller", None)
            is_shared = isinstance(caller, keras.Layer) and not isinstance(caller, keras.Model)
            found.append(LayerCall(self, args[0], outputs, around if is_shared else None))
        return outputs

    with mock.patch.object(keras.Layer, "__call__", call):
        yield found


def sent_rows(calls: Sequence[LayerCall], cut: dict[int, int]) -> dict[int, SentRows]:
    """Returns what the products of layers send, by the ids of the layers.

    Args:
        calls: Of one step, traced with shapes that are known.
        cut: The ids of layers that compute with a slice of their kernel or table -> the axis along which that is cut.
    """
    own = [call for call in calls if id(call.layer) in cut and _is_known(call)]
    of_columns = {call.outputs.name for call in own if _is_by_outputs(call, cut[id(call.layer)])}
    cut_tensors = _still_cut(calls, of_columns)
    gathered: set[tuple[str, int]] = set()
    found: dict[int, SentRows] = {}
    for call in own:
        sends = _sends(call, cut[id(call.layer)], of_columns, cut_tensors)
        if call.outputs.name in of_columns and call.around is not None:
            # All products in one call of a layer have them gathered once.
            key = (call.rows.name, id(call.around))
            sends = SentRows(0, 0) if key in gathered else sends
            gathered.add(key)
        before = found.get(id(call.layer), SentRows(0, 0))
        found[id(call.layer)] = SentRows(before.whole + sends.whole, before.parts + sends.parts)
    return found


def _sends(call: LayerCall, axis: int, of_columns: Collection[str], cut_tensors: Collection[str]) -> SentRows:
    given, returned = _bytes(call.rows), _bytes(call.outputs)
    # The gradient by what comes from the data alone is not computed.
    both_ways = 2 if _is_of_weights(call.rows) else 1
    if isinstance(call.layer, keras.layers.Embedding) and not call.rows.dtype.is_floating:
        # The ids of all; then rows of the table, and their gradients.
        return SentRows(given + 2 * returned, 0) if axis == 0 else SentRows(given, 2 * returned)
    if call.outputs.name in of_columns:
        return SentRows(both_ways * given, 0)
    return SentRows(2 * returned, 0 if call.rows.name in cut_tensors else both_ways * given)


def _is_by_outputs(call: LayerCall, axis: int) -> bool:
    """Returns whether a product gives each worker some of the outputs, and not a part of their sums."""
    layer = call.layer
    if isinstance(layer, keras.layers.EinsumDense):
        kernel, _, result = layer.equation.replace(" ", "").partition(",")[2].partition("->")
        return kernel[axis] in result
    if isinstance(layer, keras.layers.Embedding):  # As the last product, of the table turned round.
        return bool(call.rows.dtype.is_floating) and axis == 0
    return axis == _rank_of_kernel(layer) - 1


def _rank_of_kernel(layer: Any) -> int:
    """The dimensions of a layer's kernel, whose last one is that of its outputs."""
    return layer.rank + 2 if isinstance(layer, BaseConv) else 2


def _still_cut(calls: Sequence[LayerCall], of_columns: Collection[str]) -> set[str]:
    """The names of the tensors of a step that are cut along their features, and of which no operation needs all."""
    full = {call.outputs.name for call in calls if isinstance(call.layer, _PRODUCTS)} - {*of_columns}
    cut, joined = set(of_columns), set[str]()
    for op in calls[0].outputs.graph.get_operations() if calls else ():
        names, given = {output.name for output in op.outputs}, {tensor.name for tensor in op.inputs}
        if names & (full | cut):
            continue
        if given & joined or (given & cut and op.type in _JOINING):
            joined |= names
        elif given & cut:
            cut |= names
    return cut


def _is_of_weights(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is computed of weights, so that its gradient is computed."""
    waiting, seen = [tensor.op], set[str]()
    while waiting:
        op = waiting.pop()
        if op.type == "VarHandleOp":
            return True
        if op.name not in seen:
            seen.add(op.name)
            waiting.extend(each.op for each in op.inputs)
    return False


def _is_known(call: LayerCall) -> bool:
    return bool(call.rows.shape.is_fully_defined() and call.outputs.shape.is_fully_defined())


def _bytes(tensor: tf.Tensor) -> int:
    return math.prod(tensor.shape.as_list()) * int(tensor.dtype.size)
