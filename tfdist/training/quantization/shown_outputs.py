"""Tells whether a model's outputs show what it computes: a metric of outputs that are all NaN never becomes worse."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.training.artifacts.output_comparison import shows_nothing
from tfdist.training.model_outputs.step_outputs import named_outputs, names_of

SAMPLES = 32
"""The number of samples are looked at."""


def model_shows_nothing(model: keras.Model, inputs: Any) -> str:
    """Returns why none of its outputs shows what it computes, in words; empty where one does.

    Args:
        model: Under the default strategy.
        inputs: Some samples.
    """
    outputs = dict(named_outputs(model(inputs, training=False), names_of(model)))
    arrays = {name: _array(output) for name, output in outputs.items()}
    return shows_nothing(
        {name: array for name, array in arrays.items() if array.ndim}, [_array(x) for x in tf.nest.flatten(inputs)]
    )


def _array(value: Any) -> NDArray:
    if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
    elif isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
