"""Layers that need care: kernels that fail on no sample, recurrence."""

from __future__ import annotations

from typing import Any

import keras

from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers, tokens

layers = keras.layers


@case("convolution and pooling")
def convolution(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=64)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPool2D(2),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 8, 8, 1), y, {"metrics": ["accuracy"]})


@case("convolution kernels of float32 that see no sample")
def convolutions_in_float32(samples: int) -> dict[str, Any]:
    """In float64 the CPU's fast kernels, which fail on no sample, do not run. Frozen, so that no rounding shows."""
    x, y = numbers(samples, features=128)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.Conv2D(4, 3, strides=2, dtype="float32", trainable=False),
            layers.DepthwiseConv2D(2, dtype="float32", trainable=False),
            layers.SeparableConv2D(3, 2, depth_multiplier=2, dtype="float32", trainable=False),
            layers.Flatten(dtype="float32"),
            layers.Rescaling(0.0),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 8, 8, 2), y, {"metrics": ["accuracy"]})


@case("gradient of a transposed convolution of float32 that sees no sample")
def transposed_convolution_in_float32(samples: int) -> dict[str, Any]:
    """As for max pooling."""
    x, y = numbers(samples, features=32)
    model = keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.Conv2D(3, 1),
            layers.Conv2DTranspose(4, 3, dtype="float32"),
            layers.Flatten(dtype="float32"),
            layers.Rescaling(0.0),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 4, 4, 2), y, {"metrics": ["accuracy"]})


@case("max pooling of float32 that sees no sample", needs="layers.AdaptiveMaxPooling2D")
def max_pooling_in_float32(samples: int) -> dict[str, Any]:
    """As for the convolutions; the layer before learns, so that the gradient's kernel runs, and gets none."""
    x, y = numbers(samples, features=64)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(3, 1),
            layers.MaxPooling2D(2, dtype="float32"),
            layers.AdaptiveMaxPooling2D(2, dtype="float32"),
            layers.Flatten(dtype="float32"),
            layers.Rescaling(0.0),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 8, 8, 1), y, {"metrics": ["accuracy"]})


@case("recurrent layers: GRU, SimpleRNN, Bidirectional")
def recurrent_layers(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=20)
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            layers.Bidirectional(layers.GRU(3, return_sequences=True)),
            layers.SimpleRNN(4),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 5, 4), y)


@case("attention and LayerNormalization")
def attention_and_layer_normalization(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=20)
    inputs = keras.Input((5, 4))
    attended = layers.LayerNormalization()(inputs + layers.MultiHeadAttention(2, 3)(inputs, inputs))
    outputs = layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(attended))
    return fitted(keras.Model(inputs, outputs), x.reshape(-1, 5, 4), y)


@case("`run_eagerly=True` with convolutions, maxima, sums of layers and recurrent layers")
def layers_that_run_eagerly(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=32)
    inputs = keras.Input((4, 4, 2))
    normalized = layers.BatchNormalization(synchronized=True)(layers.Conv2D(4, 3, padding="same")(inputs))
    summed = layers.Add()([normalized, layers.Conv2DTranspose(4, 3, padding="same")(normalized)])
    rows = layers.Reshape((4, 4))(layers.MaxPooling2D(2)(summed))
    both = layers.Concatenate()([layers.LSTM(3)(rows), layers.GlobalMaxPooling1D()(rows)])
    outputs = layers.Dense(3, activation="softmax")(both)
    return fitted(keras.Model(inputs, outputs), x.reshape(-1, 4, 4, 2), y, {"run_eagerly": True})


@case("`jit_compile=True` of convolutions, maxima and LSTM with masks")
def layers_that_xla_compiles(samples: int) -> dict[str, Any]:
    return _compiled_by_xla(samples)


@case("`jit_compile=True` of the same, with an activity regularizer")
def layers_that_xla_compiles_with_a_loss(samples: int) -> dict[str, Any]:
    """With a loss of its own the model is compiled for pieces of a batch as they are, of no sample, too."""
    return _compiled_by_xla(samples, activity_regularizer="l2")


def _compiled_by_xla(samples: int, **options: Any) -> dict[str, Any]:
    (x, y), ids = numbers(samples, features=32), tokens(samples)
    inputs = [keras.Input((16, 2)), keras.Input((7,), dtype="int32")]
    maxima = layers.MaxPooling1D(2)(layers.Conv1D(3, 3, **options)(inputs[0]))
    words = layers.LSTM(3)(layers.Embedding(20, 4, mask_zero=True)(inputs[1]))
    both = layers.Concatenate()([layers.Flatten()(maxima), words])
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(both))
    settings = {"optimizer": keras.optimizers.Adam(0.02), "jit_compile": True, "metrics": ["accuracy"]}
    return fitted(model, [x.reshape(-1, 16, 2), ids], y, settings) | ONLY_TRAINED


@case("`SpectralNormalization` under `jit_compile=True`")
def branches_that_xla_compiles(samples: int) -> dict[str, Any]:
    """A branch keeps for its gradient what XLA cannot return."""
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.SpectralNormalization(layers.Dense(8, activation="tanh")),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, *numbers(samples), {"jit_compile": True})
