"""The callback by which `fit` trains a model for the int8 weights that it will have.

Fake quantization: layers that compute with rounded weights, while the weights stay in float and learn.

Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference" (2018). The
gradient of rounding is that of the identity: Bengio et al., "Estimating or propagating gradients through stochastic
neurons for conditional computation" (2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfdist.config.field_errors import nearest
from tfdist.errors import UsageError
from tfdist.keras_repairs.model_checks.model_facts import layers_of
from tfdist.text import safe_repr

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


class QuantizationAware(keras.callbacks.Callback):
    """Trains with weights that are rounded to 8 bits, so that quantizing the model afterwards loses less.

    While `fit` runs, Dense, EinsumDense (those of attention layers, too) and Conv layers compute with weights as int8
    holds them, each output with a scale of its own (Jacob et al., 2018), and Embedding layers with rows so. Dense and
    EinsumDense layers get inputs rounded as Keras's int8 rounds them, each row by itself; Conv layers, of which LiteRT
    rounds activations, each sample by itself.
    Gradients pass through the rounding as if it were not there, to the weights in float, which are what is trained,
    saved and kept in checkpoints. Losses and metrics of `fit`, those of the validation too, are those of the rounded
    model. When it ends the model computes in float again: `tfdist quantize --mode int8`, or `model.quantize("int8")`,
    makes it what was trained.

    It depends on the weights and on each sample alone, so that any number of replicas trains as one does. Give it to
    `fit` on every worker.

    Args:
        layers: Names of the layers that compute so, or paths of those inside of others (`attention/query`); that of a
            layer that holds others stands for all in it. None for all.
        skip: Names or paths of layers that compute in float.

    Raises:
        UsageError: When `fit` begins: a layer is unknown or cannot be quantized, or the model has no weights yet.

    Example:
        model.fit(x, y, epochs=2, callbacks=[tfdist.QuantizationAware()])
    """

    ignores_batches = True

    changes_weights = True
    """True: it changes what the weights are trained to, on every worker alike, so it must run on each."""

    def __init__(self, layers: Sequence[str] | None = None, *, skip: Sequence[str] = ()) -> None:
        super().__init__()
        for option, names in (("layers", layers or ()), ("skip", skip)):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                received = f"{option}={safe_repr(names)}"
                raise UsageError(f"Expected {option} to be a list of names of layers. Received: {received}")
        self._names, self._skip = layers, skip
        self._rounding: list[FakeQuantization] = []

    def on_train_begin(self, logs: Any = None) -> None:
        # Of a `fit` that ended by an exception.
        self._end()
        self._rounding = [FakeQuantization(layer) for layer in self._chosen(self.model)]
        self._forget_functions()

    def on_train_end(self, logs: Any = None) -> None:
        self._end()
        self._forget_functions()

    def _end(self) -> None:
        while self._rounding:
            self._rounding.pop().end()

    def _forget_functions(self) -> None:
        """Forgets the functions that were traced before, which compute otherwise."""
        self.model.make_train_function(force=True)
        self.model.test_function = None
        self.model.predict_function = None

    def _chosen(self, model: keras.Model) -> list[keras.layers.Layer]:
        if not model.built:
            raise UsageError(
                f"The model {model.name} has no weights yet that could be rounded. Expected a model that is built when "
                "fit begins. Call it once, or give it an Input."
            )
        known = {name: layer for layer in layers_of(model) for name in (layer.path or layer.name, layer.name)}
        for option, names in (("layers", self._names or ()), ("skip", self._skip)):
            for name in names:
                _check_known(option, name, known)
        rounding = [layer for layer in layers_of(model) if can_be_rounded(layer)]
        for name in self._names or ():
            if not any(_is_named(layer, [name]) for layer in rounding):
                raise UsageError(
                    f"The layer {name} is a {type(known[name]).__name__}, or its weights are not one plain variable. "
                    f"Expected {_KINDS}. Received: layers with {name}"
                )
        asked = [layer for layer in rounding if self._names is None or _is_named(layer, self._names)]
        chosen = [layer for layer in asked if not _is_named(layer, self._skip)]
        if not chosen:
            raise UsageError(
                f"The model {model.name} has no layer to train for int8. Expected {_KINDS}. Received: "
                f"{', '.join(f'{name} ({type(layer).__name__})' for name, layer in known.items())}"
            )
        return chosen


_KINDS = "a Dense, EinsumDense, Conv or Embedding layer, or one that holds such"


def _is_named(layer: keras.layers.Layer, names: Sequence[str]) -> bool:
    """Returns whether a name is that of the layer, its path, or the path of what holds it."""
    path = layer.path or layer.name
    return any(name in (layer.name, path) or path.startswith(f"{name}/") for name in names)


def _check_known(option: str, name: str, known: dict[str, keras.layers.Layer]) -> None:
    if name not in known:
        near = nearest(name, list(known))
        hint = f" Did you mean {near}?" if near else ""
        raise UsageError(
            f"The model has no layer {name}.{hint} Expected one of {', '.join(known)}. Received: {option} with {name}"
        )
