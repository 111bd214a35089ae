"""Layers that compute the same by operations of which LiteRT has kernels in integers.

LayerNormalization negates the mean and squares differences, and an Embedding adds to numbers of rows that are negative:
LiteRT has the first in float alone, the second not in int16, and does not calibrate the third.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.model_checks.model_layers import layers_of

Call = Callable[[Any], Any]


@contextlib.contextmanager
def integer_forms(model: keras.Model) -> Iterator[None]:
    """Inside, a model that is traced has these forms.

    Args:
        model: A built model, whose layers compute in float32.
    """
    with contextlib.ExitStack() as stack:
        for layer in layers_of(model):
            form = _form_of(layer)
            if form is not None:
                stack.callback(setattr, layer, "call", layer.call)
                layer.call = form
        yield


def _form_of(layer: keras.layers.Layer) -> Call | None:
    if layer.compute_dtype != "float32" or layer.quantization_mode is not None or not layer.built:
        return None
    if type(layer) is keras.layers.LayerNormalization and not getattr(layer, "rms_scaling", False):
        return _normalization(layer)
    if type(layer) is keras.layers.Embedding and not layer.lora_enabled:
        return _lookup(layer)
    return None


def _normalization(layer: keras.layers.Layer) -> Call:
    axes = tuple(layer.axis) if isinstance(layer.axis, list | tuple) else (layer.axis,)

    def call(inputs: Any) -> Any:
        rank = len(inputs.shape)
        shape = [inputs.shape[axis] if axis in {each % rank for each in axes} else 1 for axis in range(rank)]
        difference = inputs - keras.ops.mean(inputs, axis=axes, keepdims=True)
        variance = keras.ops.mean(difference * difference, axis=axes, keepdims=True)
        outputs = difference * keras.ops.rsqrt(variance + layer.epsilon)
        if layer.gamma is not None:
            outputs = outputs * keras.ops.reshape(layer.gamma, shape)
        return outputs if layer.beta is None else outputs + keras.ops.reshape(layer.beta, shape)

    return call


def _lookup(layer: keras.layers.Layer) -> Call:
    # Keras takes a negative number for one from the end of the table; here it is outside of it.
    def call(inputs: Any) -> Any:
        return tf.gather(tf.convert_to_tensor(layer.embeddings), keras.ops.cast(inputs, "int32"))

    return call
