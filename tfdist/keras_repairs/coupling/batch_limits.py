"""Finds limits of what is computed from a whole batch, such as `tf.maximum(mean_loss, 0.1)`, in what is traced.

They have two sides, as branches have: below the limit and above it. A replica's mean may lie on another side than that
of the batch, and later than any trial and first step shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.batch_branches import check_limit, is_looking

_BOTH_INPUTS = ("Maximum", "Minimum", "Mod", "FloorMod", "FloorDiv")
_FIRST_INPUT = ("Abs", "Relu", "Relu6", "LeakyRelu", "ClipByValue", "Sign", "Floor", "Ceil", "Round", "Rint")
_BOOL_INPUT = ("Select", "SelectV2", "Cast")
_INPUTS = {**dict.fromkeys(_BOTH_INPUTS, 2), **dict.fromkeys((*_FIRST_INPUT, *_BOOL_INPUT), 1)}
"""Operations that are linear, or constant, on each side of a limit, and how many of their inputs have two sides."""


def create_operation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `FuncGraph._create_op_internal`, by which operations of functions are created."""

    def repaired(self: FuncGraph, op_type: str, *args: Any, **kwargs: Any) -> Any:
        operation = original(self, op_type, *args, **kwargs)
        if op_type in _INPUTS and is_looking():
            for given in operation.inputs[: _INPUTS[op_type]]:
                # Of whole numbers there are those of what is padded to the longest sample.
                if (given.dtype.is_bool if op_type in _BOOL_INPUT else given.dtype.is_floating) and _is_of_all(given):
                    check_limit(given)
        return operation

    return repaired


def _is_of_all(tensor: tf.Tensor) -> bool:
    """Returns whether no dimension of a tensor is that of the samples: if it follows from them it does so from all."""
    if not tensor.shape.rank:
        return tensor.shape.rank == 0
    step = current_step()
    rows = None if step is None else step.share.static_rows
    return tensor.shape.is_fully_defined() and (rows is None or all(size % max(rows, 1) for size in tensor.shape))
