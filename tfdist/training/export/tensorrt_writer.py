"""Writes what a machine with a GPU builds a TensorRT engine from: ONNX, the command, and Triton's config."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tfdist.errors import UnsupportedError
from tfdist.training.export.export_request import InputEntry
from tfdist.training.export.onnx_writer import nodes_of, write_onnx
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import layer_at

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
