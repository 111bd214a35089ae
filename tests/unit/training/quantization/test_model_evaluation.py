from __future__ import annotations

import keras
import numpy as np

from tfdist.training.quantization.model_evaluation import model_shows_nothing


def test_a_model_of_nan_is_told_from_one_that_computes() -> None:
    """A model of several outputs, one of which shows something."""
    inputs = keras.Input((3,))
    layers = [keras.layers.Dense(2, name=name) for name in ("a", "b")]
    model = keras.Model(inputs, [layer(inputs) for layer in layers])
    samples = np.random.default_rng(1).normal(size=(8, 3)).astype("float32")
    assert model_shows_nothing(model, samples) == ""
    layers[0].set_weights([np.full((3, 2), np.nan), np.zeros(2)])
    assert model_shows_nothing(model, samples) == ""
    layers[1].set_weights([np.zeros((3, 2)), np.zeros(2)])
    said = "the output 'a' is NaN or infinite in all 8 samples; the output 'b' is the same in all 8 samples"
    assert model_shows_nothing(model, samples) == said
