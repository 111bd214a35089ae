"""Adds to the file of a model with quantized layers what Keras leaves out, and cannot load it without.

A layer's config has its own dtype policy alone. Of an attention layer whose four projections are quantized the file
says nothing, and Keras cannot load it again ("expected 2 variables, but received 0"). A map of policies by path, as the
policy of the layer that holds them, says it: Keras's own layers hand it to those that they make.

Of layers that GPTQ or AWQ has quantized Keras 3.14 and 3.15 do not write all weights: `save_own_variables` of Dense and
EinsumDense leaves the zero points out, as it takes them from what merges LoRA, which has none in these modes.
`load_own_variables` expects them, and reads a file that has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def save_all_weights(layer: keras.layers.Layer) -> None:
    """Lets a quantized layer write all weights that Keras will read for it, in the order in which it reads them.

    Args:
        layer: A Dense or EinsumDense layer in the mode `gptq` or `awq`.
    """

    def save_own_variables(store: Any) -> None:
        names = layer.variable_serialization_spec[layer.quantization_mode]
        held = [getattr(layer, name) for name in names if not (name == "bias" and layer.bias is None)]
        for place, variable in enumerate(held):
            store[str(place)] = variable

    layer.save_own_variables = save_own_variables
