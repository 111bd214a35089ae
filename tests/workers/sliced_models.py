"""Models whose layers compute with slices of their weights, by the layouts that go with their layers' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

LAYOUTS = {
    "(.*/)?(up|alone).*kernel$": (None, "model"),
    "(.*/)?up.*bias": ("model",),
    "(.*/)?up.*(gamma|beta)": ("model",),
    "(.*/)?down.*kernel$": ("model", None),
    "^table.*embeddings": ("model", None),
    "^places/embeddings": (None, "model"),
    "attention.*(query|key|value)/kernel": (None, "model", None),
    "attention.*(query|key|value)/bias": ("model", None),
    "attention.*output/kernel": ("model", None, None),
    "^deep/kernel": (None, None, "model"),
    "^deep/bias": (None, "model"),
    "^flat/kernel": (None, "model", None),
    "^wide.*kernel": (None, None, "model"),
    "^wide.*bias": ("model",),
    "^narrow.*kernel": (None, "model", None),
    "^broad.*kernel": (None, None, None, "model"),
    "^broad.*bias": ("model",),
    "^slim.*kernel": (None, None, "model", None),
}
"""Of weights, by their paths."""


class Sample:
    """The data of the models."""

    def __init__(self, samples: int) -> None:
        rng = np.random.default_rng(0)
        self.numbers, self.targets = rng.normal(size=(samples, 8)), rng.normal(size=(samples, 3))
        self.ids = rng.integers(0, 50, (samples, 6))
        self.ids[::3, 4:] = 0
        self.images = rng.normal(size=(samples, 6, 6, 2))

    @property
    def next_ids(self) -> Any:
        return np.roll(self.ids, -1, 1)


class OwnProduct(layers.Layer):
    """A layer of a user's."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], 9), name="kernel")

    def call(self, x: Any) -> Any:
        return ops.tanh(ops.matmul(x, self.kernel)) * 2.0


class Silu(layers.Layer):
    """Calls a function of TensorFlow with a gradient of its own, which waits for its input."""

    def call(self, x: Any) -> Any:
        with tf.control_dependencies([x]):
            return tf.nn.silu(x)


class OwnProducts(layers.Layer):
    """A layer of a user's, with products by functions of TensorFlow and by an operator."""

    def build(self, shape: Any) -> None:
        sizes = {"up_kernel": (shape[-1], 10), "down_kernel": (10, 12), "up_other_kernel": (12, 8)}
        for name, size in {**sizes, "down_other_kernel": (8, 6), "up_last_kernel": (6, 9)}.items():
            setattr(self, name, self.add_weight(shape=size, name=name))
        self.scale = self.add_weight(shape=(10,), name="scale", initializer="random_normal")

    def call(self, x: Any) -> Any:
        x = tf.matmul(tf.nn.tanh(x @ self.up_kernel) * self.scale, self.down_kernel)
        x = tf.tensordot(tf.einsum("btf,fg->btg", x, self.up_other_kernel), self.down_other_kernel, 1)
        return ops.dot(x, self.up_last_kernel)


class Unusual(layers.Layer):
    """Records what it computes with tapes of its own, multiplies a weight by a constant, has complex numbers and time
    steps before samples."""

    def build(self, shape: Any) -> None:
        self.first, self.second = (layers.Dense(12, name=f"up_{name}") for name in ("first", "second"))
        self.steps = layers.Dense(6, name="up_steps")
        for layer, width in ((self.first, shape[-1]), (self.second, shape[-1]), (self.steps, shape[-1] // 2)):
            layer.build((None, width))
        self.kernel = self.add_weight(shape=(shape[-1], 12), name="up_kernel")

    def call(self, x: Any) -> Any:
        # Nothing records what the first product gathers, and the second one has the same rows.
        hidden = tf.recompute_grad(self.first)(x) + 2.0 * self.second(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(tf.tanh(self.second(x)))
            waves = tf.sin(x)
            with tape.stop_recording():
                bound = tf.tanh(self.first(waves))
            total += tf.reduce_sum(tf.tanh(self.second(waves)))
        slope = tf.stop_gradient(tf.reduce_sum(tape.gradient(total, x), -1, keepdims=True))
        scale = ops.matmul(ops.ones((1, x.shape[-1])), self.kernel)
        phase = tf.math.real(tf.reduce_sum(tf.cast(hidden, tf.complex128) * (1 + 2j), -1, keepdims=True) * (1 - 1j))
        steps = tf.transpose(tf.reshape(x, (-1, 2, x.shape[-1] // 2)), (1, 0, 2))
        steps = tf.reshape(tf.transpose(self.steps(steps), (1, 0, 2)), (-1, 12))
        return tf.tanh(hidden * scale * bound + slope + 0.1 * phase + steps)


class Rotated(layers.Layer):
    """Attention by heads that a layer of a user's cuts out of one product, with rotary positions."""

    def __init__(self, heads: int, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads

    def build(self, shape: Any) -> None:
        self.up = [layers.Dense(shape[-1], use_bias=False, name=f"up_{name}") for name in "qkv"]
        self.down = layers.Dense(shape[-1], name="down_output")
        for layer in (*self.up, self.down):
            layer.build(shape)

    def call(self, x: Any) -> Any:
        length, width = x.shape[1:]
        size = width // self.heads
        query, key, value = (ops.reshape(layer(x), (-1, length, self.heads, size)) for layer in self.up)
        query, key = self._rotated(query), self._rotated(key)
        scores = ops.softmax(ops.einsum("bthd,bshd->bhts", query, key) / size**0.5)
        return self.down(ops.reshape(ops.einsum("bhts,bshd->bthd", scores, value), (-1, length, width)))

    def _rotated(self, x: Any) -> Any:
        places, pairs = (ops.arange(size, dtype=x.dtype) for size in (x.shape[1], x.shape[-1] // 2))
        angles = places[:, None, None] / (1.0 + pairs)
        first, second = ops.split(x, 2, axis=-1)
        cosine, sine = ops.cos(angles), ops.sin(angles)
        return ops.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)


class Cached(layers.Layer):
    """Attention that computes a sequence in two parts, with keys and values of the first one kept in a cache."""

    def build(self, shape: Any) -> None:
        names = ("query", "key", "value")
        self.projections = [layers.EinsumDense("btf,fhd->bthd", (None, 2, 3), name=name) for name in names]
        self.output_dense = layers.EinsumDense("bthd,hdf->btf", (None, shape[-1]), name="output")
        for layer in self.projections:
            layer.build(shape)
        self.output_dense.build((None, shape[1], 2, 3))

    def call(self, x: Any) -> Any:
        length = x.shape[1]
        cache: list[Any] = []
        outputs = []
        for start, stop in ((0, 4), (4, length)):
            query, key, value = (layer(x[:, start:stop]) for layer in self.projections)
            kept = zip(cache or (key[:, :0], value[:, :0]), (key, value), strict=True)
            cache = [ops.concatenate(parts, 1) for parts in kept]
            scores = ops.einsum("bthd,bshd->bhts", query, cache[0])
            is_seen = ops.arange(stop)[None, :] <= ops.arange(start, stop)[:, None]
            weights = ops.softmax(ops.where(is_seen, scores, -1e9))
            outputs.append(self.output_dense(ops.einsum("bhts,bshd->bthd", weights, cache[1])))
        return ops.concatenate(outputs, 1)


class Subclassed(keras.Model):
    """A model of a user's own class."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.norm = layers.Dense(30, name="up_k"), layers.BatchNormalization(name="up_norm_k")
        self.narrow, self.head = layers.Dense(8, name="down_k"), layers.Dense(3, name="head")
        self.dropout = layers.Dropout(0.2)

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.dropout(keras.activations.relu(self.norm(self.wide(x), training=training)), training=training)
        return self.head(ops.concatenate([x + self.narrow(hidden), x], -1))


def gated(sample: Sample) -> Any:
    """Products by columns and by rows, with what is between them; what the next layer needs in full, too."""
    x = keras.Input((8,))
    hidden = layers.Dense(12, name="down_b")(layers.Dense(33, "tanh", name="up_a")(x))
    hidden = layers.BatchNormalization()(hidden)
    gate = layers.Dense(20, "silu", name="up_c")(hidden) * layers.Dense(20, "gelu", name="up_d")(hidden)
    hidden = layers.Dense(20, name="down_e")(gate) + gate
    hidden = OwnProduct(name="alone_f")(layers.Dense(13, "softmax", name="alone_g")(hidden))
    return keras.Model(x, layers.Dense(3)(hidden)), sample.numbers, sample.targets, "mse"


def unusual(sample: Sample) -> Any:
    """What rules for slices are seldom asked for."""
    x = keras.Input((8,))
    return keras.Model(x, layers.Dense(3)(Unusual()(layers.Dense(8)(x)))), sample.numbers, sample.targets, "mse"


def own_gradient(sample: Sample) -> Any:
    """A function with a gradient of its own behind a product by columns, times another product by columns."""
    x = keras.Input((8,))
    hidden = layers.BatchNormalization()(layers.Dense(6, "tanh")(x))
    gate = Silu()(layers.Dense(20, name="up_h")(hidden)) * layers.Dense(20, "gelu", name="up_i")(hidden)
    return keras.Model(x, layers.Dense(3, name="down_j")(gate)), sample.numbers, sample.targets, "mse"


def classifier(sample: Sample) -> Any:
    """Self-attention with padding and dropout, products that are cut along the width of their heads, convolutions."""
    x = keras.Input((6,), dtype="int64")
    hidden = layers.Embedding(50, 12, mask_zero=True, name="table_a")(x) + layers.Embedding(6, 12, name="places")(x % 6)
    attention = layers.MultiHeadAttention(3, 4, dropout=0.2, name="attention_b")
    hidden = attention(layers.LayerNormalization()(hidden), hidden)
    hidden = layers.EinsumDense("btf,fhd->bthd", (None, 2, 5), "tanh", bias_axes="hd", name="deep")(hidden)
    hidden = layers.EinsumDense("bthd,hdf->btf", (None, 12), name="flat")(hidden)
    hidden = layers.Conv1D(7, 3, activation="relu", name="wide_c")(hidden)
    hidden = layers.Conv1D(5, 3, padding="same", name="narrow_d")(hidden)
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden))), sample.ids, sample.targets, "mse"


def language(sample: Sample) -> Any:
    """Causal attention of groups of heads, a feed-forward block, and tied embeddings."""
    x = keras.Input((6,), dtype="int64")
    table = layers.ReversibleEmbedding(50, 12, name="table_b")
    hidden = table(x)
    attention = layers.GroupQueryAttention(4, 4, 2, name="attention_a")
    hidden = hidden + attention(hidden, hidden, use_causal_mask=True)
    inner = layers.Dropout(0.3)(layers.Dense(48, "gelu", name="up_f")(layers.LayerNormalization()(hidden)))
    hidden = hidden + layers.Dense(12, name="down_g")(inner)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.Model(x, table(hidden, reverse=True)), sample.ids, sample.next_ids, loss


def mlp(sample: Sample, model: type[keras.Model] = keras.Model) -> Any:
    """Normalizations over what is cut, noise, a bias and a scale that are not cut, and regularizers."""
    x = keras.Input((8,))
    hidden = layers.Dense(33, name="alone_l", kernel_regularizer="l2")(x)
    hidden = layers.Activation("relu")(layers.BatchNormalization()(hidden))
    hidden = layers.Dense(12, name="down_l", kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-2))(hidden)
    hidden = layers.Dense(20, name="up_m", activity_regularizer="l2")(layers.GaussianNoise(0.1)(hidden))
    hidden = layers.Dropout(0.2)(layers.LayerNormalization()(hidden))
    hidden = layers.Dense(20, "gelu", name="up_n")(layers.Dense(12, name="down_m")(hidden))
    hidden = layers.RMSNormalization()(layers.LayerNormalization(name="up_norm")(hidden))
    hidden = layers.Dense(16, name="up_o")(layers.Dense(12, name="down_n")(hidden))
    hidden = layers.Dense(5, name="down_o")(layers.LeakyReLU()(layers.UnitNormalization()(hidden)))
    return model(x, layers.Dense(3)(hidden)), sample.numbers, sample.targets, "mse"


def images(sample: Sample) -> Any:
    """Convolutions, with normalizations over channels that are cut, and pooling."""
    x = keras.Input((6, 6, 2))
    hidden = layers.Conv2D(6, 3, padding="same", name="broad_a")(x)
    hidden = layers.Activation("relu")(layers.BatchNormalization()(hidden))
    hidden = layers.SpatialDropout2D(0.2)(layers.MaxPooling2D(2)(hidden))
    hidden = layers.DepthwiseConv2D(2, padding="same")(hidden)
    hidden = layers.Conv2D(5, 2, padding="same", name="slim_a")(hidden)
    hidden = layers.Conv2D(8, 2, padding="same", use_bias=False, name="broad_b")(layers.ZeroPadding2D(1)(hidden))
    hidden = layers.AveragePooling2D(2)(layers.GroupNormalization(4)(hidden))
    hidden = layers.Conv2D(5, 1, name="slim_b")(layers.Activation("silu")(layers.Permute((2, 1, 3))(hidden)))
    hidden = layers.GlobalMaxPooling2D()(layers.Conv2D(6, 1, name="broad_c")(layers.UpSampling2D(2)(hidden)))
    return keras.Model(x, layers.Dense(3, name="down_c")(hidden)), sample.images, sample.targets, "mse"


def translation(sample: Sample) -> Any:
    """An encoder and a decoder with cross attention, masks of padding, and a vocabulary that is cut."""
    source, target = (keras.Input((6,), dtype="int64", name=name) for name in ("source", "target"))
    table = layers.Embedding(50, 12, mask_zero=True, name="table_c")

    def attended(name: str, query: Any, value: Any, **how: Any) -> Any:
        return layers.LayerNormalization()(query + layers.MultiHeadAttention(4, 3, name=name)(query, value, **how))

    def fed(name: str, x: Any) -> Any:
        inner = layers.Dense(24, "relu", name=f"up_{name}")(x)
        return layers.LayerNormalization()(x + layers.Dense(12, name=f"down_{name}")(inner))

    encoded = fed("p", attended("attention_c", table(source), table(source)))
    decoded = attended("attention_d", table(target), table(target), use_causal_mask=True)
    decoded = fed("q", attended("attention_e", decoded, encoded))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = keras.Model([source, target], layers.Dense(50, name="up_r")(decoded))
    return model, [sample.ids, sample.ids[:, ::-1].copy()], sample.next_ids, loss


def own_layer(sample: Sample) -> Any:
    """Layers of a user's: attention by heads of one product; products by functions of TensorFlow and an operator."""
    x = keras.Input((6,), dtype="int64")
    hidden = layers.Embedding(50, 16, name="places")(x)
    hidden = OwnProducts(name="own")(hidden + Rotated(4, name="rotated")(hidden))
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden))), sample.ids, sample.targets, "mse"


def cached(sample: Sample) -> Any:
    """Attention with a cache of keys and values."""
    x = keras.Input((6,), dtype="int64")
    hidden = layers.Embedding(50, 12, name="places")(x)
    hidden = hidden + Cached(name="attention_f")(hidden)
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden))), sample.ids, sample.targets, "mse"


def adapted(sample: Sample) -> Any:
    """Kernels that are frozen, with small products trained beside them (LoRA)."""
    x = keras.Input((6,), dtype="int64")
    table = layers.Embedding(50, 12, name="places")
    up, down = layers.Dense(24, "gelu", name="up_s"), layers.Dense(12, name="down_s")
    attention = layers.EinsumDense("btf,fhd->bthd", (None, 4, 3), name="attention_query")
    output = layers.EinsumDense("bthd,hdf->btf", (None, 12), name="attention_output")
    hidden = output(ops.tanh(attention(down(up(table(x))))))
    model = keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden)))
    for layer in (table, up, down, attention, output):
        layer.enable_lora(2)
    return model, sample.ids, sample.targets, "mse"


def scores(sample: Sample) -> Any:
    """Losses and metrics of scores that are cut: of probabilities, of scores of labels, and of logarithms."""
    x = keras.Input((8,))
    hidden = layers.Dense(12, "tanh")(x)
    outputs = [
        layers.Dense(7, "softmax", name="alone_s")(hidden),
        layers.Dense(50, name="up_s")(hidden),
        layers.Dense(9, "log_softmax", name="alone_t")(hidden),
    ]
    labels = sample.ids[:, 1]
    targets = [np.eye(7)[labels % 7], labels, np.zeros((len(labels), 9))]
    losses = [
        keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        "mse",
    ]
    return keras.Model(x, outputs), sample.numbers, targets, losses, [["accuracy"], ["accuracy"], []]


MODELS: dict[str, Callable[[Sample], Any]] = {
    "gated": gated,
    "own_gradient": own_gradient,
    "classifier": classifier,
    "language": language,
    "mlp": mlp,
    "images": images,
    "translation": translation,
    "own_layer": own_layer,
    "subclassed": lambda sample: (Subclassed(), sample.numbers, sample.targets, "mse"),
    "unusual": unusual,
    "cached": cached,
    "adapted": adapted,
    "scores": scores,
}
