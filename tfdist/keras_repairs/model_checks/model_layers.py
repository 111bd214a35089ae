"""The layers of a model, with those inside of layers and of models in it."""

from __future__ import annotations

import keras


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """Every layer below a model once, in the order in which it keeps them; the model itself is none of them."""
    found: dict[int, keras.layers.Layer] = {}
    for layer in model._flatten_layers(include_self=False):
        found.setdefault(id(layer), layer)
    return list(found.values())
