"""Writes ONNX, by tf2onnx; for TensorRT with the command that builds an engine of it, and Triton's config."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.errors import UnsupportedError
from tfdist.text import safe_str
from tfdist.training.export.export_request import InputEntry
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import lacking, layer_at

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


VERSION = "10.1"
"""Of onnx-tensorrt, docs/operators.md."""

_NAMES = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast CastLike Ceil Celu
    Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DeformConv DepthToSpace DequantizeLinear
    Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gelu Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization GRU HardSigmoid
    HardSwish Hardmax Identity If ImageScaler InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax Loop LRN LSTM LpNormalization LpPool MatMul Max MaxPool Mean MeanVarianceNormalization
    Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or Pad ParametricSoftplus Pow PRelu QuantizeLinear
    RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
    ReverseSequence RNN RoiAlign Round ScaledTanh Scan Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid
    Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh
    ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""

OPERATORS = frozenset(_NAMES.split())


ONNX_FILE, SCRIPT, CONFIG = "model.onnx", "build.sh", "config.pbtxt"

_TRITON = {
    "bool": "TYPE_BOOL",
    **{f"float{bits}": f"TYPE_FP{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"TYPE_INT{bits}" for bits in (8, 32, 64)},
    "uint8": "TYPE_UINT8",
    "bfloat16": "TYPE_BF16",
}

_SCRIPT = """#!/bin/sh
# Builds the engine of {name}, on a machine with the GPU that will run it: an engine fits that GPU and that version of
# TensorRT alone. Add --fp16 or --bf16 for what computes in half precision.
set -e
cd "$(dirname "$0")"
mkdir -p 1
exec {command}
"""


def write_tensorrt(serving: ServingFunction, folder: Path, name: str, largest_batch: int) -> Path:
    """Writes `model.onnx`, `build.sh` with the command of trtexec, and `config.pbtxt`, as Triton has them in a folder.

    Args:
        serving: What is written.
        folder: An empty one.
        name: Of the model.
        largest_batch: For which batch size the engine is made, where that is free.

    Returns:
        The file of ONNX.

    Raises:
        UnsupportedError: ONNX or TensorRT lacks an operation, or a size other than the batch's is free.
    """
    outputs = _outputs(serving)
    for entry in serving.inputs:
        if None in entry.shape[1:] or entry.dtype not in _TRITON:
            shown = f"{entry.name} {entry.dtype}[{', '.join(map(str, entry.shape))}]"
            raise UnsupportedError(
                f"TensorRT cannot be built for the input {shown}. Expected numbers, and no free size but the batch's, "
                f"as an engine is made for a range of sizes. Give them with --input-signature {entry.name}=DTYPE:DIMS, "
                "or choose another --format."
            )
    model = write_onnx(serving, folder / ONNX_FILE)
    strange = {node.op_type: layer_at(node.name, serving) for node in nodes_of(model.graph)}
    strange = {kind: layer for kind, layer in strange.items() if kind not in OPERATORS}
    if strange:
        shown = ", ".join(f"{kind} of {layer}" if layer else kind for kind, layer in sorted(strange.items()))
        raise UnsupportedError(
            f"TensorRT {VERSION} has no {shown}. Expected ONNX's operators that its documentation lists. Choose "
            "another --format: onnx has it."
        )
    script = folder / SCRIPT
    script.write_text(_SCRIPT.format(name=name, command=_command(serving, largest_batch)))
    script.chmod(0o755)
    (folder / CONFIG).write_text(_config(serving, outputs, name, largest_batch))
    return folder / ONNX_FILE


def _outputs(serving: ServingFunction) -> list[InputEntry]:
    found = serving.function.get_concrete_function().structured_outputs
    return [InputEntry(name, spec.dtype.name, tuple(spec.shape)) for name, spec in found.items()]


def _command(serving: ServingFunction, largest: int) -> str:
    words = ["trtexec", f"--onnx={ONNX_FILE}", "--saveEngine=1/model.plan"]
    if serving.fixed_batch is None:
        for option, batch in (("min", 1), ("opt", largest), ("max", largest)):
            sizes = ["x".join(map(str, (batch, *entry.shape[1:]))) for entry in serving.inputs]
            shapes = ",".join(f"{entry.name}:{size}" for entry, size in zip(serving.inputs, sizes, strict=True))
            words.append(f"--{option}Shapes={shapes}")
    return " \\\n  ".join(map(shlex.quote, words))


def _config(serving: ServingFunction, outputs: Sequence[InputEntry], name: str, largest: int) -> str:
    is_free = serving.fixed_batch is None
    lines = [f'name: "{name}"', 'platform: "tensorrt_plan"', f"max_batch_size: {largest if is_free else 0}"]
    for word, entries in (("input", serving.inputs), ("output", outputs)):
        for entry in entries:
            dims = entry.shape[1:] if is_free else entry.shape
            # Triton wants at least one size beside the batch's.
            shown = ", ".join("-1" if size is None else str(size) for size in dims or (1,))
            reshape = "" if dims else " reshape { shape: [ ] }"
            kind = _TRITON.get(entry.dtype, "TYPE_FP32")
            lines.append(f'{word} {{ name: "{entry.name}" data_type: {kind} dims: [ {shown} ]{reshape} }}')
    return "\n".join([*lines, ""])
