"""The callback by which `fit` trains a model for the int8 weights that it will have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfdist.config.field_errors import nearest
from tfdist.errors import UsageError
from tfdist.keras_repairs.model_checks.model_layers import layers_of
from tfdist.text import safe_repr
from tfdist.training.quantization_aware.fake_quantization import FakeQuantization, can_be_rounded


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
