"""Layers that compute the same with every call: dense, convolutional, pooling, merging, normalizing, preprocessing."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.exactness.keras_classes.rows import FLOAT32, Row, layer

layers = keras.layers


def _two(layer: Any, x: Any) -> Any:
    """A layer of two tensors."""
    return layer([x, layers.Dense(x.shape[-1])(x)])


def _merging(name: str) -> Row:
    return Row(f"layers.{name}", getattr(layers, name), "vector", _two)


def _normalization() -> Any:
    made = layers.Normalization()
    made.adapt(np.random.default_rng(1).normal(1.0, 2.0, (50, 6)))
    return made


def _discretization() -> Any:
    return layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])


def _self_attention(layer: Any, x: Any) -> Any:
    return layer(x, x)


def _embedded_and_back(layer: Any, x: Any) -> Any:
    return layer(layer(x), reverse=True)


_SEPARABLE = {"filters": 3, "kernel_size": 2}

ROWS = (
    layer("Activation", "vector", "gelu"),
    layer("ActivityRegularization", "vector", l1=0.01, l2=0.02),
    *(layer(f"Adaptive{kind}Pooling{n}D", on, 2) for kind in ("Average", "Max") for n, on in
      ((1, "sequence"), (2, "image"))),
    *(_merging(name) for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")),
    Row("layers.Dot", lambda: layers.Dot(axes=1), "vector", _two),
    Row("layers.AdditiveAttention", layers.AdditiveAttention, "sequence", _two),
    Row("layers.Attention", lambda: layers.Attention(use_scale=True), "sequence", _two),
    Row("layers.GroupQueryAttention", lambda: layers.GroupQueryAttention(2, 4, 2), "sequence", _self_attention),
    Row("layers.MultiHeadAttention", lambda: layers.MultiHeadAttention(2, 3), "sequence", _self_attention),
    *(layer(f"{kind}{n}D", on, 2) for kind in ("AveragePooling", "MaxPool") for n, on in
      ((1, "sequence"), (2, "image"))),
    # TensorFlow pools volumes in no more than 32 bits.
    *(layer(f"{kind}3D", "volume", 2, dtype="float32") for kind in
      ("AdaptiveAveragePooling", "AdaptiveMaxPooling", "AveragePooling", "MaxPool")),
    *(layer(name, on) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))
      for name in (f"GlobalAveragePooling{n}D", f"GlobalMaxPool{n}D")),
    *(layer(f"Conv{n}D", on, 3, 2) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
    *(layer(f"Conv{n}DTranspose", on, 3, 2, strides=2) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
    *(layer(f"Cropping{n}D", on, 1) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
    *(layer(f"UpSampling{n}D", on, 2) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
    *(layer(f"ZeroPadding{n}D", on, 1) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
    *(layer(f"DepthwiseConv{n}D", on, 2) for n, on in ((1, "sequence"), (2, "image"))),
    *(layer(f"SeparableConv{n}D", on, **_SEPARABLE) for n, on in ((1, "sequence"), (2, "image"))),
    layer("BatchNormalization", "vector"),
    layer("Dense", "vector", 5, activation="tanh"),
    layer("EinsumDense", "sequence", "abc,cd->abd", output_shape=(7, 3), bias_axes="d"),
    layer("ELU", "vector"),
    layer("Embedding", "tokens", 20, 4, mask_zero=True),
    layer("Flatten", "sequence"),
    layer("GroupNormalization", "image", groups=3),
    layer("Identity", "vector"),
    Row("layers.InputLayer", lambda: layers.Identity(), "vector"),
    Row("layers.Lambda", lambda: layers.Lambda(lambda x: x * keras.ops.sigmoid(x), output_shape=(6,)), "vector"),
    layer("LayerNormalization", "vector"),
    layer("LeakyReLU", "vector"),
    Row("layers.Masking", layers.Masking, "sequence", lambda masking, x: layers.SimpleRNN(3)(masking(x)),
        is_trained_before=False),
    layer("Permute", "sequence", (2, 1)),
    layer("PReLU", "vector"),
    layer("ReLU", "vector", negative_slope=0.1),
    layer("RepeatVector", "vector", 2),
    layer("Reshape", "vector", (3, 2)),
    Row("layers.ReversibleEmbedding", lambda: layers.ReversibleEmbedding(20, 4), "tokens", _embedded_and_back),
    layer("RMSNormalization", "vector"),
    layer("Softmax", "vector"),
    Row("layers.SpectralNormalization", lambda: layers.SpectralNormalization(layers.Dense(4)), "vector"),
    Row("layers.TimeDistributed", lambda: layers.TimeDistributed(layers.Dense(3)), "sequence"),
    layer("UnitNormalization", "vector"),
    # Preprocessing.
    layer("CategoryEncoding", "tokens", num_tokens=20, output_mode="count"),
    layer("CenterCrop", "image", 4, 4),
    Row("layers.Discretization", _discretization, "vector", is_trained_before=False),
    Row("layers.HashedCrossing", lambda: layers.HashedCrossing(7, output_mode="one_hot"), "strings",
        lambda crossing, x: crossing((x, x))),
    layer("Hashing", "strings", 7),
    Row("layers.IntegerLookup", lambda: layers.IntegerLookup(vocabulary=[3, 5, 7, 9]), "number"),
    Row("layers.MelSpectrogram", lambda: layers.MelSpectrogram(
        num_mel_bins=4, sampling_rate=64, sequence_stride=16, fft_length=32, dtype="float32"), "signal",
        tolerance=FLOAT32),
    Row("layers.Normalization", _normalization, "vector"),
    Row("layers.Pipeline", lambda: layers.Pipeline([layers.Rescaling(0.5), layers.CenterCrop(4, 4)]), "image"),
    layer("Rescaling", "image", 2.0, offset=-1.0),
    layer("Resizing", "image", 4, 5),
    Row("layers.STFTSpectrogram", lambda: layers.STFTSpectrogram(
        frame_length=16, frame_step=16, fft_length=16, window=None), "signal",
        lambda spectrogram, x: spectrogram(x[..., None])),
    Row("layers.StringLookup", lambda: layers.StringLookup(vocabulary=["ape", "bee", "cat"]), "strings"),
    Row("layers.TextVectorization", lambda: layers.TextVectorization(
        vocabulary=["ape", "bee", "cat"], output_sequence_length=3), "strings"),
)  # fmt: skip
