"""Operations that work channel by channel, where channels are cut: pooling, resizing, depthwise convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.keras_repairs.tensor_parallel.rule_results import (
    Compute,
    Input,
    Result,
    Rule,
    is_of_all,
    of_all,
    rows_like,
    value_of,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import Part, SlicedRows, SlicedWeight


def _of_channels(part: Part, attributes: Mapping[str, Any]) -> SlicedRows | None:
    """Rows that are cut along their channels; None for anything else."""
    data_format = value_of(attributes["data_format"]) if "data_format" in attributes else "NHWC"
    return part if isinstance(part, SlicedRows) and part.axis == data_format.index("C") else None


def _pooled(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    part, sizes = _of_channels(inputs[0][1], attributes), value_of(attributes["ksize"])
    if part is None or sizes[0] != 1 or sizes[part.axis] != 1:
        return None
    return [rows_like(part, compute(part.slice))]


def _resized(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    part, (sizes, other) = _of_channels(inputs[0][1], attributes), inputs[1]
    return None if part is None or other is not None else [rows_like(part, compute(part.slice, sizes))]


def _depthwise(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    part, (kernel, of_kernel) = _of_channels(inputs[0][1], attributes), inputs[1]
    if part is None:
        return None
    if isinstance(of_kernel, SlicedWeight) and of_kernel.axis == 2 and of_kernel.bounds == part.bounds:
        own = of_kernel.slice
    elif of_kernel is None and kernel.shape[2] == part.bounds[-1] and is_of_all(kernel):
        start, stop = part.bounds[part.group.share : part.group.share + 2]
        own = of_all(kernel, part.group)[:, :, start:stop]
    else:
        return None
    bounds = tuple(bound * kernel.shape[3] for bound in part.bounds)
    return [rows_like(part, compute(part.slice, own), bounds=bounds)]


RULES: Mapping[str, Rule] = {
    "DepthwiseConv2dNative": _depthwise,
    **dict.fromkeys(("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D"), _pooled),
    **dict.fromkeys(("ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor"), _resized),
}
