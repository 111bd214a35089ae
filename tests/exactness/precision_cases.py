"""What runs in Keras's default precision, and in 16 bits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.exactness.table import Precision, case, classifier, fitted, numbers, token_classifier, tokens

layers = keras.layers

# What one replica does when the samples inside each batch are permuted, ten times, is the measure of rounding: in
# float32 losses moved by 6e-8 and weights by 9e-8, in mixed_float16 by 6e-8 and 2e-6, in mixed_bfloat16 by 1e-4 and
# 3e-3. In 16 bits several replicas differ by more than that, since each rounds its own part of a gradient to 16 bits:
# with float16 losses by 2e-5 and weights by 4e-4.
FLOAT32 = Precision("float32", "float32", losses=1e-5, weights=1e-5)
FLOAT16 = Precision("float32", "mixed_float16", losses=1e-3, weights=1e-2)
BFLOAT16 = Precision("float32", "mixed_bfloat16", losses=1e-3, weights=1e-2)


@case("float32, Adam, accuracy", FLOAT32)
def default_precision(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": "adam", "metrics": ["accuracy"]}, shuffle=False)


@case("float32, an embedding and masks", FLOAT32)
def default_precision_of_tokens(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier(layers.GlobalAveragePooling1D())
    return fitted(model, ids, ids[:, 0] % 3, {"metrics": ["accuracy"]}, shuffle=False)


@case("top-k accuracies", FLOAT32)
def top_k(samples: int) -> dict[str, Any]:
    """In float32, which TensorFlow's `in_top_k` takes alone."""
    x, y = numbers(samples, classes=9)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(9, activation="softmax")])
    top = keras.metrics.SparseTopKCategoricalAccuracy
    settings = {"metrics": [top(2, name="k2"), top(4, name="k4")], "weighted_metrics": [top(3, name="k3")]}
    return fitted(model, x, y, settings, shuffle=False, sample_weight=np.linspace(0.0, 2.0, samples))


@case("`mixed_float16`, whose loss `compile` scales", FLOAT16)
def mixed_float16(samples: int) -> dict[str, Any]:
    model = classifier()
    made = fitted(model, *numbers(samples), {"optimizer": keras.optimizers.Adam(0.01)}, shuffle=False)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    return made


@case("`mixed_float16` with clipping and gradient accumulation", FLOAT16)
def mixed_float16_and_accumulation(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5, gradient_accumulation_steps=2)
    return fitted(classifier(), *numbers(samples), {"optimizer": optimizer}, shuffle=False)


@case("`mixed_bfloat16`", BFLOAT16)
def mixed_bfloat16(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.Adam(0.01)}, shuffle=False)
