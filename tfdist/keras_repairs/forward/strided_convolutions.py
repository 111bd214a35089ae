"""The gradient of a convolution of single pixels with strides, such as the shortcuts of residual networks.

oneDNN's, on CPUs, writes past its buffers where the number of rows is odd and channels are few, compiled or not: the
process dies, or computes on in what it has overwritten. A batch that one device has as even rows reaches replicas, and
trials, as odd ones. Of a kernel of one pixel the pixels between the strides have no part in it: it is the gradient of
a convolution without strides over the others, which oneDNN computes right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Function = Callable[..., Any]


def filter_gradient(original: Function) -> Function:
    """Repairs `gen_nn_ops.conv2d_backprop_filter`, which gradients of convolutions of images and of rows call."""

    def repaired(
        input: Any, filter_sizes: Any, out_backprop: Any, strides: Sequence[int], padding: Any, **options: Any
    ) -> Any:
        if options.get("data_format", "NHWC") in ("NHWC", b"NHWC") and _jumps(input, filter_sizes, strides, padding):
            _, down, right, _ = strides
            input, strides = input[:, ::down, ::right], [1, 1, 1, 1]
        return original(input, filter_sizes, out_backprop, strides, padding, **options)

    return repaired


def _jumps(pixels: Any, filter_sizes: Any, strides: Sequence[int], padding: Any) -> bool:
    """Returns whether it is the convolution of single pixels, with strides, on a CPU, and without a padding of its
    own."""
    if max(strides) == 1 or padding not in ("VALID", "SAME", b"VALID", b"SAME"):
        return False
    sizes = _static(filter_sizes)
    return sizes is not None and sizes[:2] == [1, 1] and tf.DeviceSpec.from_string(pixels.device).device_type != "GPU"


def _static(sizes: Any) -> list[int | None] | None:
    """The sizes of a kernel, where they are known; in a graph they are the shape of what it was."""
    known = tf.get_static_value(sizes)
    if known is not None:
        return [int(size) for size in known]
    operation = getattr(sizes, "op", None)
    if operation is None or operation.type not in ("Shape", "ShapeN"):
        return None
    shape: tf.TensorShape = operation.inputs[sizes.value_index].shape
    return None if shape.rank is None else shape.as_list()
