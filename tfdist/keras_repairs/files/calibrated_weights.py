"""Weights of layers that GPTQ or AWQ has quantized, which Keras 3.14 and 3.15 do not write to a file in full.

`save_own_variables` of Dense and EinsumDense leaves the zero points out, as it takes them from what merges LoRA, which
has none in these modes. `load_own_variables` expects them ("expected 5 variables, but received 0"), and reads a file
that has them all.
"""

from __future__ import annotations

from typing import Any

import keras


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
