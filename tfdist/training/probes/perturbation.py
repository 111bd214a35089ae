"""Perturbation of a model's weights by about a rounding error, to see what rounding alone does to its training."""

from __future__ import annotations

import keras
import tensorflow as tf

_SEED = 11
_SPACING = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Distance of neighbouring numbers of a dtype, relative to them."""

_HALF = ("float16", "bfloat16")


def perturb_weights(model: keras.Model) -> None:
    """Multiplies every element of the trainable weights with 1 + e or 1 - e, the same ones in every run.

    e is four times the spacing of numbers in the weight's dtype, relative to them; or half of that in the dtype that
    the model computes in, where it has 16 bits.

    Args:
        model: Built, on one replica.
    """
    half = [_SPACING[dtype] for dtype in {str(layer.compute_dtype) for layer in model.layers} if dtype in _HALF]
    for number, weight in enumerate(model.trainable_weights):
        if weight.dtype not in _SPACING:
            continue
        value = tf.convert_to_tensor(weight.value)
        up = tf.random.stateless_uniform(value.shape, [_SEED, number]) < 0.5
        e = max([4 * _SPACING[weight.dtype], *(spacing / 2 for spacing in half)])
        weight.assign(tf.where(up, value * (1 + e), value * (1 - e)))
