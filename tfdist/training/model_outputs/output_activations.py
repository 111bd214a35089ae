"""Tells what the outputs of a model are, logits or probabilities, as its last layers say."""

from __future__ import annotations

from typing import Literal

import keras

from tfdist.training.model_outputs.step_outputs import names_of

Gives = Literal["logits", "probabilities"]


def gives(model: keras.Model, name: str) -> Gives | None:
    """Returns what an output of a model is, as its last layer says; None where that does not."""
    layers, names = getattr(model, "layers", []), names_of(model)
    wanted = names[0] if len(names) == 1 else name
    last = next((layer for layer in layers if layer.name == wanted), None)
    if last is None and not names and layers:
        last = layers[-1]
    if isinstance(last, keras.Model):
        return gives(last, name)
    if isinstance(last, keras.layers.Softmax):
        return "probabilities"
    activation = getattr(last, "activation", None)
    if activation in (keras.activations.softmax, keras.activations.sigmoid):
        return "probabilities"
    return "logits" if activation is keras.activations.linear else None
