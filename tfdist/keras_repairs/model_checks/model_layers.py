"""The layers of a model, with those inside of layers and of models in it, and which of them are not built yet."""

from __future__ import annotations

from typing import Any

import keras


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """Every layer below a model once, in the order in which it keeps them; the model itself is none of them."""
    found: dict[int, keras.layers.Layer] = {}
    for layer in model._flatten_layers(include_self=False):
        found.setdefault(id(layer), layer)
    return list(found.values())


def unbuilt_parts(model: Any, *, with_metrics: bool = False) -> list[Any]:
    """The layers of a model that are not built yet: a step that calls them builds them.

    Args:
        model: A compiled model. Without a `call`, where its steps call its parts, it is none of them itself.
        with_metrics: Whether to include metrics without variables.
    """
    layers = model._flatten_layers(include_self=type(model).call is not keras.Model.call)
    metrics = [metric for metric in model.metrics if not metric.variables] if with_metrics else []
    return [*(layer for layer in layers if not layer.built), *metrics]
