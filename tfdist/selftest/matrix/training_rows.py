"""Trainings of one feature each, cut unevenly by any number of replicas; and of what is saved and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.selftest.matrix.row_runner import RowContext, RowFunction
from tfdist.selftest.row_log import saved_model
from tfdist.training import api, collectives_api

layers = keras.layers
BATCH = 32
SAMPLES = 2 * BATCH + 1
"""The last batch has one sample: all replicas but one have none."""

EPOCHS = 2
CLASSES = 4
_WORDS, _LENGTH = 30, 9


def numbers(features: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Samples of float32 numbers and their int64 classes, always the same."""
    draw = np.random.default_rng(5)
    x = draw.normal(size=(SAMPLES, features)).astype(np.float32)
    return x, (x[:, :CLASSES] + 0.3 * draw.normal(size=(SAMPLES, CLASSES))).argmax(axis=1)


def images() -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 x 8 x 3, float32, and their classes."""
    x, y = numbers(8 * 8 * 3)
    return x.reshape(SAMPLES, 8, 8, 3), y


def sentences() -> tuple[np.ndarray, np.ndarray]:
    """Rows of word ids that end in 0, the padding, at very different lengths, and their classes."""
    draw = np.random.default_rng(6)
    ids = draw.integers(1, _WORDS, (SAMPLES, _LENGTH))
    ids[np.arange(_LENGTH) >= draw.integers(1, _LENGTH + 1, SAMPLES)[:, None]] = 0
    return ids, ids[:, 0] % CLASSES


def classifier(**options: Any) -> keras.Model:
    """Two dense layers on `numbers`."""
    return keras.Sequential(
        [keras.Input((12,)), layers.Dense(32, activation="relu", **options), layers.Dense(CLASSES, dtype="float32")]
    )


def train(context: RowContext, model: keras.Model, x: Any, y: Any, optimizer: Any, **options: Any) -> None:
    """Compiles and fits; `options` go to `fit`, but for `jit_compile`."""
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"] if "sample_weight" in options else None,
        jit_compile=options.pop("jit_compile", False),
    )
    context.fit(model, x, y, **{"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, **options})


def dense(context: RowContext) -> None:
    x, y = numbers()
    train(context, classifier(), x, y, keras.optimizers.Adam(0.01, global_clipnorm=0.1), validation_data=(x, y))


def masks(context: RowContext) -> None:
    ids, y = sentences()
    model = keras.Sequential(
        [keras.Input((_LENGTH,)), layers.Embedding(_WORDS, 8, mask_zero=True), layers.LSTM(8), layers.Dense(CLASSES)]
    )
    weights = np.linspace(0.0, 2.0, SAMPLES).astype(np.float32)
    train(context, model, ids, y, keras.optimizers.SGD(0.1, momentum=0.9), sample_weight=weights)


def statistics(context: RowContext) -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES),
        ]
    )
    train(context, model, *images(), keras.optimizers.SGD(0.05, momentum=0.9))


def random(context: RowContext) -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.RandomFlip("horizontal"),
            layers.RandomTranslation(0.2, 0.2),
            layers.GaussianNoise(0.1),
            layers.Conv2D(8, 3, activation="relu"),
            layers.SpatialDropout2D(0.2),
            layers.Flatten(),
            layers.Dropout(0.4),
            layers.Dense(CLASSES),
        ]
    )
    train(context, model, *images(), keras.optimizers.SGD(0.05, momentum=0.9))


def embedding(context: RowContext) -> None:
    ids, y = sentences()
    model = keras.Sequential(
        [keras.Input((_LENGTH,)), layers.Embedding(_WORDS, 8), layers.Flatten(), layers.Dense(CLASSES)]
    )
    train(context, model, ids, y, keras.optimizers.Adagrad(0.1, clipnorm=0.05))


def accumulation(context: RowContext) -> None:
    optimizer = keras.optimizers.AdamW(0.01, gradient_accumulation_steps=2, global_clipnorm=0.1)
    train(context, classifier(), *numbers(), optimizer)


class OwnStep(keras.Model):
    """A model whose `train_step` calls `compute_loss` and applies the gradients by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(32, activation="relu", kernel_regularizer="l2", activity_regularizer="l1")
        self.out = layers.Dense(CLASSES)

    def call(self, inputs: Any) -> Any:
        return self.out(self.hidden(inputs))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=predicted)
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return self.compute_metrics(x, y, predicted, None)


def own_step(context: RowContext) -> None:
    train(context, OwnStep(), *numbers(), keras.optimizers.SGD(0.05, nesterov=True, momentum=0.9))


def contrastive(targets: Any, predictions: Any) -> Any:
    """Each row of `predictions` is to be nearer to its own row of `targets` than to those of the other samples."""
    likenesses = keras.ops.matmul(predictions, keras.ops.transpose(targets))
    own = keras.ops.arange(keras.ops.shape(likenesses)[0])
    return keras.losses.sparse_categorical_crossentropy(own, likenesses, from_logits=True)


def coupled(context: RowContext) -> None:
    x, _ = numbers()
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, activation="relu")(inputs)
    pairs, mask = layers.Dense(6, name="pairs")(hidden), layers.Dense(6, activation="sigmoid", name="mask")(hidden)
    model = keras.Model(inputs, {"pairs": pairs, "mask": mask})
    model.compile(keras.optimizers.SGD(0.1), {"pairs": contrastive, "mask": keras.losses.Dice()})
    targets = {"pairs": x[:, :6], "mask": (x[:, 6:] > 0).astype(np.float32)}
    context.fit(model, x, targets, batch_size=BATCH, epochs=EPOCHS, shuffle=False)


def xla(context: RowContext) -> None:
    train(context, classifier(), *numbers(), keras.optimizers.Adam(0.01, global_clipnorm=0.1), jit_compile=True)


def mixed_float16(context: RowContext) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    train(context, classifier(), *numbers(), keras.optimizers.Adam(0.01))


def mixed_bfloat16(context: RowContext) -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    train(context, classifier(), *numbers(), keras.optimizers.Adam(0.01))


ROWS: Mapping[str, RowFunction] = MappingProxyType(
    {
        row.__name__: row
        for row in (
            dense,
            masks,
            statistics,
            random,
            embedding,
            accumulation,
            own_step,
            coupled,
            xla,
            mixed_float16,
            mixed_bfloat16,
        )
    }
)


def saving(context: RowContext) -> None:
    """Trains, saves, loads what it saved, and trains further."""
    model = classifier()
    train(context, model, *numbers(), _adam(), epochs=1)
    file = saved_model(context.folder)
    model.save(file)
    # The chief writes.
    collectives_api.barrier()
    _train_further(context, file)


def loading(context: RowContext) -> None:
    """Loads what another job saved, and trains further."""
    assert context.saved is not None
    _train_further(context, Path(context.saved))


def _train_further(context: RowContext, file: Path) -> None:
    model = keras.models.load_model(file)
    context.fit(model, *numbers(), batch_size=BATCH, epochs=1, shuffle=False)


def _adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.01, global_clipnorm=0.1)


def resume(context: RowContext) -> None:
    """Trains with checkpoints; the same from wherever it was killed, to the bit."""
    # On GPUs some kernels add up in any order.
    tf.config.experimental.enable_op_determinism()
    model = classifier()
    model.compile(_adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x, y = numbers()
    context.fit(model, x, y, batch_size=BATCH // 2, epochs=3, callbacks=api.callbacks(every_steps=3))


SAVING_ROWS: Mapping[str, RowFunction] = MappingProxyType({row.__name__: row for row in (saving, loading, resume)})
