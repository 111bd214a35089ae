"""Repair of how TensorFlow creates operations of functions: with slices, or with full tensors, exchanged before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from tfdist.keras_repairs.tensor_parallel.operation_rules import of_slices
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    FullTensor,
    Part,
    SizesOfRows,
    SlicedRows,
    SlicedTensor,
    SumOfSlices,
    actual,
    actual_of,
    compute_whole,
    gather_anew,
    known_in,
    note,
    place_of,
)

Function = Callable[..., Any]


def create_operation(original: Function) -> Function:
    """Repairs `FuncGraph._create_op_internal`, by which operations of functions are created; see the module."""

    def repaired(self: FuncGraph, op_type: str, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        known = known_in(self)
        inputs = [actual(each, self) for each in inputs] if known else inputs
        parts = [known.get(place_of(each)) if _is_in(each, self) else None for each in inputs] if known else []
        if not any(parts):
            return original(self, op_type, inputs, *args, **kwargs)
        attributes = kwargs.get("attrs") or (args[3] if len(args) > 3 else None) or {}
        given = list(zip(inputs, parts, strict=True))
        found = of_slices(op_type, given, attributes)
        if found is not None:
            operation = original(self, op_type, inputs, *args, **kwargs)
            for output, each in zip(operation.outputs, found, strict=True):
                _note(output, each)
            return operation
        if op_type in ("Shape", "Size") and isinstance(parts[0], SlicedRows):
            operation = original(self, op_type, [parts[0].of_its_shape()], *args, **kwargs)
            if op_type == "Shape":
                note(operation.outputs[0], SizesOfRows(parts[0], operation.outputs[0]))
            return operation
        return original(self, op_type, [_full(*each) for each in given], *args, **kwargs)

    return repaired


def _note(output: tf.Tensor, part: Part) -> None:
    note(output, part)
    if isinstance(part, FullTensor) and part.sum_of is not None:
        note(part.tensor, SumOfSlices(part.sum_of))


def _full(tensor: tf.Tensor, part: Part) -> tf.Tensor:
    return part.full() if isinstance(part, SlicedTensor | SizesOfRows) else tensor


def _is_in(tensor: Any, graph: Any) -> bool:
    return getattr(tensor, "graph", None) is graph


def control_dependencies(original: Function) -> Function:
    """Repairs `FuncGraph.control_dependencies`: what waits for a full tensor waits for the slice of it."""

    def repaired(self: FuncGraph, control_inputs: Any) -> Any:
        known = known_in(self)
        if not known or control_inputs is None:
            return original(self, control_inputs)
        return original(self, [_there(each, self) for each in control_inputs])

    return repaired


def watch(original: Function) -> Function:
    """Repairs `tf.GradientTape.watch`: what is computed from a tensor that stands for another follows from that one,
    and rows that were gathered before are gathered again."""

    def repaired(self: Any, tensor: Any) -> None:
        gather_anew()
        original(self, tf.nest.map_structure(actual_of, tensor))

    return repaired


def push_tape(original: Function) -> Function:
    """Repairs `tf.GradientTape._push_tape`, with which a tape begins to record, or goes on after `stop_recording`: what
    was exchanged before is exchanged again."""

    def repaired(self: Any) -> None:
        gather_anew()
        original(self)

    return repaired


def pfor(original: Function) -> Function:
    """Repairs TensorFlow's `pfor`, on which `tf.vectorized_map` and the Jacobians of tapes stand: the code of a turn of
    its loop finds full tensors, which are exchanged before it."""

    def repaired(*args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly() or not known_in(tf.compat.v1.get_default_graph()):
            return original(*args, **kwargs)

        @tf.function(autograph=False)
        def whole() -> Any:
            compute_whole(tf.compat.v1.get_default_graph())
            return original(*args, **kwargs)

        return whole()

    return repaired


def _there(control_input: Any, graph: Any) -> Any:
    is_result = not isinstance(control_input, tf.Operation) or not control_input.outputs
    tensor = control_input if is_result else control_input.outputs[0]
    if not isinstance(tensor, tf.Tensor) or not _is_in(tensor, graph):
        return control_input
    found = known_in(graph).get(place_of(tensor))
    return found.slice if isinstance(found, SlicedTensor) else control_input
