"""Dtype policies of quantized layers inside of other layers, which Keras leaves out of a model's file.

A layer's config has its own policy alone. Of an attention layer whose four projections are quantized the file says
nothing, and Keras cannot load it again ("expected 2 variables, but received 0"). A map of policies by path, as the
policy of the layer that holds them, says it: Keras's own layers hand it to those that they make.
"""

from __future__ import annotations

from collections.abc import Iterator

import keras


def walk(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """A layer, and all layers in it."""
    yield from layer._flatten_layers()


def record_nested_policies(model: keras.Model) -> None:
    """Gives each layer that holds quantized ones a policy that names theirs; models save their layers one by one."""
    for layer in walk(model):
        if isinstance(layer, keras.Model) or isinstance(layer.dtype_policy, keras.dtype_policies.DTypePolicyMap):
            continue
        inner = [below for below in walk(layer) if below is not layer and below.quantization_mode is not None]
        if inner and all(below.path for below in inner):
            policies = {below.path: below.dtype_policy for below in inner}
            layer.dtype_policy = keras.dtype_policies.DTypePolicyMap(layer.dtype_policy.name, policies)
