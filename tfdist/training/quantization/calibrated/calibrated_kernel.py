"""A rounded kernel in a layer of Keras, in the variables that Keras has for GPTQ and AWQ."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.files.quantized_layers import save_all_weights
from tfdist.training.quantization.calibrated.awq_scaling import awq_round
from tfdist.training.quantization.calibrated.gptq_rounding import gptq_round
from tfdist.training.quantization.calibrated.input_moments import InputMoments
from tfdist.training.quantization.calibrated.kernel_layout import layout_of
from tfdist.training.quantization.calibrated.rounding_groups import RoundedKernel


def round_kernel(
    layer: keras.layers.Layer, moments: InputMoments, mode: str, bits: int, group_size: int
) -> RoundedKernel:
    """Rounds the kernel of a layer in float, by the moments of its inputs.

    Args:
        layer: One that has a layout.
        moments: Of its inputs.
        mode: `gptq` or `awq`.
        bits: Of a weight.
        group_size: How many inputs have a scale together; -1 for all.
    """
    weights = kernel_of(layer)
    if mode == "gptq":
        return gptq_round(weights, moments.gram, bits, group_size)
    return awq_round(weights, moments.gram, moments.magnitudes, bits, group_size)


def kernel_of(layer: keras.layers.Layer) -> NDArray:
    """The kernel of a layer in float, float64 [outputs, inputs]."""
    layout = layout_of(layer)
    assert layout is not None, "the layer has a layout"
    kernel = keras.ops.convert_to_numpy(layer.kernel).astype(float)
    return kernel.reshape(layout.inputs, layout.outputs).T


def quantize_layer(layer: keras.layers.Layer, mode: str, bits: int, group_size: int) -> None:
    """Gives a layer the variables of a mode, without values, and lets its file have all of them.

    Raises:
        UnsupportedError: Keras has no such mode.
    """
    layer.quantize(mode, config=_config(mode, bits, group_size))
    # What Keras would write of it speaks of samples that were not read in its way; the policy says the rest.
    layer.quantization_config = None
    save_all_weights(layer)


def fill_layer(layer: keras.layers.Layer, rounded: RoundedKernel, bits: int) -> None:
    """Gives the variables of `quantize_layer` their values."""
    levels = rounded.levels
    if bits == 4:
        levels = keras.quantizers.pack_int4(levels, axis=0, dtype="uint8")[0]
    layer.quantized_kernel.assign(levels)
    layer.kernel_scale.assign(rounded.scales)
    layer.kernel_zero.assign(rounded.zeros)
    layer.g_idx.assign(rounded.groups.astype(np.float32))
    if rounded.input_scales is not None:
        layer.awq_scales.assign(rounded.input_scales)


def _config(mode: str, bits: int, group_size: int) -> Any:
    kind = getattr(keras.quantizers, f"{mode.upper()}Config", None)
    if kind is None:
        raise UnsupportedError(
            f"Keras {keras.__version__} has no {mode}. Expected a version that has it: 3.12 has gptq, 3.14 awq. "
            "Install a later one, or choose --mode gptq or int4."
        )
    return kind(None, None, weight_bits=bits, group_size=group_size)
