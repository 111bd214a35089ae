"""What runs in Keras's default precision, and in 16 bits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import ONLY_TRAINED, Precision, case, classifier, fitted, numbers, token_classifier, tokens

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


class ScalesItsLoss(keras.Model):
    """A step that scales its loss as Keras's guide on mixed precision does."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


@case("`mixed_float16`, a step of one's own that scales its loss", FLOAT16)
def mixed_float16_in_a_step_of_ones_own(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    outputs = layers.Dense(3, activation="softmax", dtype="float32")(layers.Dense(8, activation="tanh")(inputs))
    return fitted(ScalesItsLoss(inputs, outputs), *numbers(samples), shuffle=False) | ONLY_TRAINED


class HasAShortcut(ScalesItsLoss):
    """A step that a trial runs with five rows."""


@case("a shortcut of a residual network: a convolution of single pixels with strides", FLOAT32)
def strided_shortcut(samples: int) -> dict[str, Any]:
    """In float32, whose convolutions oneDNN computes."""
    x, y = numbers(samples, features=16 * 16 * 3)
    inputs = keras.Input((16, 16, 3))
    hidden = layers.GlobalAveragePooling2D()(layers.Conv2D(16, 1, strides=2)(inputs))
    model = HasAShortcut(inputs, layers.Dense(3, activation="softmax")(hidden))
    return fitted(model, x.reshape(-1, 16, 16, 3), y, shuffle=False) | ONLY_TRAINED


@case("`mixed_bfloat16`", BFLOAT16)
def mixed_bfloat16(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.Adam(0.01)}, shuffle=False)
