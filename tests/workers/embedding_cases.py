"""What people do with embeddings, one function a feature: `python -m tests.workers.embedding_cases OUT SAMPLES NAME`.

Each is an ordinary script that knows nothing of workers, and makes the numbers that several workers must have, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.__main__ import write_outcomes

layers, optimizers = keras.layers, keras.optimizers

ROWS, DIM, LENGTH, BATCH, EPOCHS = 53, 5, 6, 16, 3

EVALUATED = {"adagrad"}
"""Cases with which the default tests evaluate and predict; the features of others are of the training."""

CASES: dict[str, Callable[[int], dict[str, Any]]] = {}


def case(make: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    CASES[make.__name__] = make
    return make


def data(samples: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Ids of which some come often, as words do, and none of the last rows."""
    generator = np.random.default_rng(5)
    ids = np.minimum(generator.geometric(0.1, (samples, LENGTH)) - 1, rows - 5)
    return ids, generator.integers(0, 3, samples)


def classifier(**options: Any) -> keras.Model:
    table = layers.Embedding(ROWS, DIM, **options)
    return keras.Sequential(
        [keras.Input((LENGTH,)), table, layers.GlobalAveragePooling1D(), layers.Dense(3, activation="softmax")]
    )


def numbers_of(model: keras.Model, history: Any, x: Any, y: Any) -> dict[str, Any]:
    """The numbers of a case; those that `outcome` leaves out as functions."""
    optimizer = model.optimizer
    return {
        "history": history.history,
        "weights": [weight.tolist() for weight in model.get_weights()],
        "evaluate": lambda: model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True),
        "predict": lambda: model.predict(x, batch_size=BATCH, verbose=0).tolist(),
        "iterations": int(optimizer.iterations.numpy()),
        "parameters": model.count_params(),
    }


def trained(optimizer: Any, samples: int, model: keras.Model | None = None, **fit: Any) -> dict[str, Any]:
    x, y = data(samples)
    model = model or classifier(mask_zero=True)
    jit = fit.pop("jit_compile", "auto")
    model.compile(
        optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=jit,
        run_eagerly=fit.pop("run_eagerly", False),
    )  # fmt: skip
    given = {"batch_size": BATCH, "epochs": EPOCHS, "verbose": 0, "shuffle": False, **fit}
    return numbers_of(model, model.fit(x, y, **given), x, y)


@case
def sgd(samples: int) -> dict[str, Any]:
    return trained(optimizers.SGD(0.5), samples)


@case
def momentum_and_clipnorm(samples: int) -> dict[str, Any]:
    return trained(optimizers.SGD(0.5, momentum=0.9, nesterov=True, clipnorm=0.02), samples)


@case
def adagrad(samples: int) -> dict[str, Any]:
    return trained(optimizers.Adagrad(0.3), samples)


@case
def adam(samples: int) -> dict[str, Any]:
    return trained(optimizers.Adam(0.05, amsgrad=True), samples, validation_split=0.2)


@case
def drawn_behind_the_table(samples: int) -> dict[str, Any]:
    """The last batch is smaller: its size is not known when the step is traced."""
    words = keras.Input((LENGTH,))
    table = layers.SpatialDropout1D(0.2)(layers.Embedding(ROWS, DIM)(words))
    flat = layers.Dropout(0.3)(layers.Dense(7, "tanh")(layers.Flatten()(table)))
    read = layers.GaussianNoise(0.1)(layers.GRU(3, dropout=0.2)(table))
    model = keras.Model(words, layers.Dense(3, activation="softmax")(layers.Concatenate()([flat, read])))
    return trained(optimizers.SGD(0.5), samples, model)


@case
def drawn_behind_the_table_with_xla(samples: int) -> dict[str, Any]:
    table = layers.Embedding(ROWS, DIM)
    model = keras.Sequential([keras.Input((LENGTH,)), table, layers.Flatten(), layers.Dropout(0.3), layers.Dense(3)])
    return trained(optimizers.SGD(0.05), samples, model, jit_compile=True)


@case
def drawn_behind_distinct_rows(samples: int) -> dict[str, Any]:
    """A table that is read once for each id that occurs, as programs do by themselves where ids come often."""

    class Distinct(keras.layers.Embedding):
        def call(self, ids: Any) -> Any:
            distinct, places = tf.unique(tf.reshape(ids, [-1]))
            rows = tf.gather(super().call(distinct), places)
            return tf.reshape(rows, tf.concat([tf.shape(ids), [DIM]], 0))

    hidden = [layers.Flatten(), layers.Dropout(0.3), layers.Dense(7, "tanh"), layers.Dropout(0.3)]
    table, last = Distinct(ROWS, DIM), layers.Dense(3, activation="softmax")
    return trained(optimizers.SGD(0.5), samples, keras.Sequential([keras.Input((LENGTH,)), table, *hidden, last]))


@case
def lazy_adam(samples: int) -> dict[str, Any]:
    return trained(tfdist.optimizers.LazyAdam(0.05, global_clipnorm=0.1), samples)


@case
def ftrl(samples: int) -> dict[str, Any]:
    return trained(optimizers.Ftrl(0.1, l1_regularization_strength=0.001), samples)


@case
def rmsprop_and_clipvalue(samples: int) -> dict[str, Any]:
    return trained(optimizers.RMSprop(0.01, clipvalue=0.001), samples)


@case
def accumulation_averages_decay_and_global_norm(samples: int) -> dict[str, Any]:
    options = {"global_clipnorm": 0.02, "use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 2}
    optimizer = optimizers.AdamW(0.05, weight_decay=0.1, gradient_accumulation_steps=3, **options)
    return trained(optimizer, samples)


@case
def averages_at_the_end_and_swapped(samples: int) -> dict[str, Any]:
    optimizer = optimizers.Adam(0.05, use_ema=True, ema_momentum=0.7)
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    return trained(optimizer, samples, callbacks=[swap], validation_split=0.2)


@case
def decay_without_the_table(samples: int) -> dict[str, Any]:
    optimizer = optimizers.AdamW(0.05, weight_decay=0.3)
    optimizer.exclude_from_weight_decay(var_names=["embeddings"])
    return trained(optimizer, samples)


@case
def regularizer(samples: int) -> dict[str, Any]:
    model = classifier(embeddings_regularizer=keras.regularizers.L1L2(0.001, 0.01), mask_zero=True)
    return trained(optimizers.Adagrad(0.3), samples, model) | {"penalty": float(sum(model.losses))}


@case
def constraint(samples: int) -> dict[str, Any]:
    bound = keras.constraints.MaxNorm(0.08, axis=1)
    return trained(optimizers.SGD(2.0), samples, classifier(embeddings_constraint=bound))


@case
def truncated_normal(samples: int) -> dict[str, Any]:
    return trained(optimizers.SGD(0.5), samples, classifier(embeddings_initializer="truncated_normal"))


@case
def initializer_of_ones_own(samples: int) -> dict[str, Any]:
    def begin(shape: Any, dtype: Any = None) -> Any:
        return tf.cast(np.random.default_rng(3).normal(size=shape), dtype)

    return trained(optimizers.SGD(0.5), samples, classifier(embeddings_initializer=begin))


@case
def initial_weights(samples: int) -> dict[str, Any]:
    table = np.random.default_rng(3).normal(size=(ROWS, DIM))
    return trained(optimizers.SGD(0.5), samples, classifier(weights=[table]))


@case
def frozen(samples: int) -> dict[str, Any]:
    return trained(optimizers.Adam(0.05), samples, classifier(trainable=False))


@case
def loss_scaling_with_an_overflow_in_one_row(samples: int) -> dict[str, Any]:
    """A row that is huge makes the gradient of others in its sample infinite: on one worker alone."""
    table = np.random.default_rng(3).normal(size=(ROWS, DIM))
    table[ROWS - 1] = 1e300
    words = keras.Input((LENGTH,))
    product = layers.Embedding(ROWS, DIM, weights=[table])(words)
    output = layers.Dense(3, activation="softmax")(layers.Lambda(lambda v: tf.reduce_prod(v, 1))(product))
    model = keras.Model(words, output)
    x, y = data(samples)
    x[20, :2] = ROWS - 1
    model.compile(optimizers.LossScaleOptimizer(optimizers.Adam(0.01)), "sparse_categorical_crossentropy")
    return numbers_of(model, model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0), x % 40, y)


@case
def several_tables_one_called_twice(samples: int) -> dict[str, Any]:
    words, first, second = layers.Embedding(ROWS, DIM), keras.Input((LENGTH,)), keras.Input((2,))
    small, others = layers.Embedding(7, 3), layers.Embedding(ROWS + 9, 2, embeddings_initializer="he_normal")
    pooled = [layers.GlobalAveragePooling1D()(part) for part in (words(first), words(second), others(first))]
    output = layers.Dense(3, activation="softmax")(layers.Concatenate()([*pooled, layers.Flatten()(small(second))]))
    model = keras.Model([first, second], output)
    x, y = data(samples)
    inputs = [x, x[:, :2] % 7]
    model.compile(optimizers.Adagrad(0.3, global_clipnorm=0.05), "sparse_categorical_crossentropy")
    history = model.fit(inputs, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return numbers_of(model, history, inputs, y)


@case
def xla(samples: int) -> dict[str, Any]:
    return trained(optimizers.Adagrad(0.3), samples, jit_compile=True)


@case
def eagerly(samples: int) -> dict[str, Any]:
    return trained(optimizers.Adam(0.05), samples, run_eagerly=True, epochs=1)


@case
def several_steps_in_an_execution(samples: int) -> dict[str, Any]:
    x, y = data(samples)
    model = classifier()
    model.compile(optimizers.Adagrad(0.3), "sparse_categorical_crossentropy", steps_per_execution=3)
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return numbers_of(model, history, x, y)


@case
def best_weights_restored(samples: int) -> dict[str, Any]:
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    return trained(optimizers.SGD(8.0), samples, callbacks=[stop], validation_split=0.3, epochs=8)


class OwnStep(keras.Model):
    """A step of one's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.words, self.head = layers.Embedding(ROWS, DIM, **options), layers.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        return self.head(tf.reduce_mean(self.words(x), 1))

    def train_step(self, batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, self(x, training=True)))
            loss += sum(self.losses)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


def trained_by_own_step(samples: int, **options: Any) -> dict[str, Any]:
    x, y = data(samples)
    model = OwnStep(**options)
    model.compile(optimizers.Adagrad(0.3), "sparse_categorical_crossentropy")
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return numbers_of(model, history, x, y)


@case
def own_step(samples: int) -> dict[str, Any]:
    return trained_by_own_step(samples)


@case
def own_step_with_a_regularizer(samples: int) -> dict[str, Any]:
    return trained_by_own_step(samples, embeddings_regularizer="l2")


@case
def mixed_precision(samples: int) -> dict[str, Any]:
    keras.config.set_dtype_policy("mixed_bfloat16")
    found = trained(optimizers.SGD(0.5), samples)
    return {"loss": [round(loss, 2) for loss in found["history"]["loss"]], "parameters": found["parameters"]}


def outcome(name: str, samples: int) -> dict[str, Any]:
    keras.backend.clear_session()
    keras.backend.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.utils.set_random_seed(11)
    found = CASES[name](samples)
    if not os.environ.get("TFDIST_SLOW_TESTS") and name not in EVALUATED:
        return {part: numbers for part, numbers in found.items() if not callable(numbers)}
    return {part: numbers() if callable(numbers) else numbers for part, numbers in found.items()}


if __name__ == "__main__":
    write_outcomes(sys.argv[1], sys.argv[3:] or tuple(CASES), lambda name: outcome(name, int(sys.argv[2])))
