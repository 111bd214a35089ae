"""Writes ONNX, by tf2onnx."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.errors import UnsupportedError
from tfdist.text import safe_str
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import lacking

OPSET = 17
"""The version of ONNX's operators: the latest that tf2onnx knows, with GroupNorm and LayerNorm still in parts."""

_DOMAINS = ("", "ai.onnx.ml")
"""Of operators that every runtime has."""

_LARGEST = 2**31 - 2**20
"""Bytes of a file: protocol buffers end at 2 GiB."""


def write_onnx(serving: ServingFunction, file: Path) -> Any:
    """Writes a file, with the inputs' and outputs' names and `batch` for the number of samples.

    Returns:
        The ONNX ModelProto.

    Raises:
        UnsupportedError: ONNX lacks an operation, whose layer is named, or the model is too large for one file.
    """
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)  # what it cannot convert is found below
    size = sum(variable.shape.num_elements() * 4 for variable in serving.graph.variables)
    if size > _LARGEST:
        raise UnsupportedError(
            f"The weights of the model have {size:,} bytes, and a file of ONNX ends at 2 GiB. Expected a smaller "
            "model. Choose another --format: savedmodel has no such end."
        )
    try:
        model, _ = tf2onnx.convert.from_function(
            serving.function, serving.specs, opset=OPSET, custom_op_handlers={"Erfc": (_erfc, [])}
        )
    except (ValueError, KeyError, TypeError, AttributeError, NotImplementedError, RuntimeError) as error:
        raise UnsupportedError(
            f"tf2onnx does not convert the model: {' '.join(safe_str(error).split())} Expected layers that ONNX has. "
            "Choose another --format: savedmodel has what TensorFlow has."
        ) from error
    _check_operators(model, serving)
    _name_batch(model, serving)
    file.write_bytes(model.SerializeToString())
    return model


def nodes_of(graph: Any) -> Iterator[Any]:
    """The nodes of an ONNX graph, with those of loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)
            for below in attribute.graphs:
                yield from nodes_of(below)


def _check_operators(model: Any, serving: ServingFunction) -> None:
    """tf2onnx writes what it cannot convert as it is, and the model then loads nowhere."""
    import onnx

    strange = [
        node
        for node in nodes_of(model.graph)
        if node.domain not in _DOMAINS or not onnx.defs.has(node.op_type, node.domain)
    ]
    if strange:
        kinds = {node.op_type for node in strange}
        raise lacking("ONNX", kinds, serving, nodes=[node.name for node in strange])


def _name_batch(model: Any, serving: ServingFunction) -> None:
    if serving.fixed_batch is not None:
        return
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value"):
            dims[0].dim_param = "batch"


def _erfc(context: Any, node: Any, name: str, arguments: Any) -> None:
    """1 - Erf(x) for Erfc(x), which is in Keras's gelu and which ONNX lacks."""
    (x,), (output,) = node.input, node.output
    dtype, shape = context.get_dtype(output), context.get_shape(output)
    one = context.make_const(f"{name}_one", np.ones((), _numpy_type(dtype)))
    context.remove_node(node.name)
    erf = context.make_node("Erf", [x], dtypes=[dtype], shapes=[shape])
    between = [one.output[0], erf.output[0]]
    context.make_node("Sub", between, outputs=[output], name=name, dtypes=[dtype], shapes=[shape])


def _numpy_type(number: int) -> Any:
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(number)
