"""Fake quantization: layers that compute with rounded weights, while the weights stay in float and learn.

Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference" (2018). The
gradient of rounding is that of the identity: Bengio et al., "Estimating or propagating gradients through stochastic
neurons for conditional computation" (2013).
"""

from __future__ import annotations

from typing import Any

import keras

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)

Axes = tuple[int, ...]


def rounded(values: Any, axis: int | Axes) -> Any:
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


def can_be_rounded(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a Dense, EinsumDense, Conv or Embedding one, with weights that are one plain
    variable."""
    if not layer.built:
        return False
    if type(layer) is keras.layers.Embedding:
        return True
    if not isinstance(getattr(layer, "kernel", None), keras.Variable):
        return False
    if isinstance(layer, keras.layers.EinsumDense):
        return bool(_kernel_axes(layer))
    return isinstance(layer, (keras.layers.Dense, *CONVOLUTIONS))


class FakeQuantization:
    """Lets one layer compute as with weights in int8, until it is told to stop.

    Each output has a scale of its own, by its weights, and each row of a table of embeddings. Inputs are rounded too:
    those of Dense and EinsumDense layers each row by itself, as they are once Keras has quantized the layer, those of
    Conv layers each sample by itself. The layer's variables stay as they are.

    Args:
        layer: One of which `can_be_rounded` holds.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.layer = layer
        self._call = layer.call
        layer.call = self._lookup_call if type(layer) is keras.layers.Embedding else self._kernel_call

    def end(self) -> None:
        """Lets the layer compute in float again."""
        self.layer.call = self._call

    def _kernel_call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = self.layer.kernel
        inputs = rounded(inputs, _input_axes(self.layer, len(inputs.shape)))
        # Only what this layer reads of its kernel changes; nothing is assigned in a call of such a layer.
        mapping = [(kernel, rounded(kernel, _kernel_axes(self.layer)))]
        with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
            return self._call(inputs, *args, **kwargs)

    def _lookup_call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Rows that nobody looks up need not be rounded, and gradients stay sparse.
        return rounded(self._call(inputs, *args, **kwargs), -1)


def _kernel_axes(layer: keras.layers.Layer) -> Axes:
    """The axes of a kernel along which numbers have a scale together: those that are summed over."""
    if isinstance(layer, keras.layers.EinsumDense):
        _, kernel, output = _letters(layer.equation)
        return tuple(axis for axis, letter in enumerate(kernel) if letter not in output)
    return tuple(range(len(layer.kernel.shape) - 1))


def _input_axes(layer: keras.layers.Layer, rank: int) -> Axes:
    if isinstance(layer, keras.layers.EinsumDense):
        inputs, _, output = _letters(layer.equation)
        first = rank - len(inputs) if layer.equation.lstrip().startswith("...") else 0
        return tuple(first + axis for axis, letter in enumerate(inputs) if letter not in output)
    if isinstance(layer, keras.layers.Dense):
        return (rank - 1,)
    return tuple(range(1, rank))


def _letters(equation: str) -> tuple[str, str, str]:
    """Of the input, the kernel and the output, without what stands for further axes."""
    operands, _, output = equation.replace("...", "").replace(" ", "").partition("->")
    inputs, _, kernel = operands.partition(",")
    return inputs, kernel, output
