"""Fake quantization: layers that compute with rounded weights, while the weights stay in float and learn.

Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference" (2018). The
gradient of rounding is that of the identity: Bengio et al., "Estimating or propagating gradients through stochastic
neurons for conditional computation" (2013).
"""

from __future__ import annotations

from typing import Any

import keras

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


def rounded(values: Any, axis: int | tuple[int, ...]) -> Any:
    """Values as int8 holds them, with the gradient of the values themselves.

    They are rounded as by `keras.quantizers.abs_max_quantize`: the largest magnitude along `axis` is 127.

    Args:
        values: A float tensor.
        axis: Along which numbers have a scale together.

    Returns:
        A tensor of the same shape and type.
    """
    values = keras.ops.convert_to_tensor(values)
    whole, scale = keras.quantizers.abs_max_quantize(values, axis=axis)
    held = keras.ops.divide(keras.ops.cast(whole, values.dtype), scale)
    return values + keras.ops.stop_gradient(held - values)


class FakeQuantization:
    """Lets one Dense or Conv layer compute as with weights in int8, until it is told to stop.

    Each output has a scale of its own, by its weights. A Dense layer gets its inputs rounded too, each row by itself,
    as it does once Keras has quantized it. The layer's variables stay as they are.

    Args:
        layer: A built Dense or Conv layer, whose kernel is one variable.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.layer = layer
        self._call = layer.call
        self._is_dense = isinstance(layer, keras.layers.Dense)
        layer.call = self._rounding_call

    def end(self) -> None:
        """Lets the layer compute in float again."""
        self.layer.call = self._call

    def _rounding_call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = self.layer.kernel
        axes = tuple(range(len(kernel.shape) - 1))
        if self._is_dense:
            inputs = rounded(inputs, -1)
        # Only what this layer reads of its kernel changes; nothing is assigned in a call of such a layer.
        mapping = [(kernel, rounded(kernel, axes))]
        with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
            return self._call(inputs, *args, **kwargs)
