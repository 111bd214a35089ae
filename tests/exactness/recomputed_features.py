"""Features of a training beside recomputation: `python -m tests.exactness.recomputed_features OUT SAMPLES [CASE ...]`.

With a blank and `kept` behind the module nothing is computed again, which is what all are compared with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tests.exactness.__main__ import write_outcomes
from tests.exactness.precision_cases import FLOAT16
from tests.exactness.recomputed_models import Block, blocks, masked, scope
from tests.exactness.table import FLOAT64, ONLY_TRAINED, Case, Make, Precision, fitted, numbers, outcome_of, tokens

layers = keras.layers

CASES: dict[str, Case] = {}

_mode: list[str | None] = ["full"]


def case(precision: Precision = FLOAT64) -> Callable[[Make], Make]:
    """Registers a function as the case of its name."""

    def register(make: Make) -> Make:
        CASES[make.__name__] = Case(make.__name__, make.__name__, make, precision)
        return make

    return register


def on_numbers(model: keras.Model, samples: int, **compiled: Any) -> dict[str, Any]:
    return fitted(model, *numbers(samples), compiled) | ONLY_TRAINED


def on_tokens(model: keras.Model, samples: int, **compiled: Any) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(model, ids, ids[:, 0] % 3, compiled) | ONLY_TRAINED


@case()
def accumulation(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.05, gradient_accumulation_steps=2, global_clipnorm=0.7)
    return on_numbers(blocks(_mode[0]), samples, optimizer=optimizer)


@case()
def averages_and_clipping(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.Adam(0.01, clipnorm=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3)
    return on_tokens(masked(_mode[0]), samples, optimizer=optimizer)


@case()
def several_steps_an_execution(samples: int) -> dict[str, Any]:
    return on_numbers(blocks(_mode[0]), samples, steps_per_execution=3)


@case()
def whole_variables(samples: int) -> dict[str, Any]:
    return on_tokens(masked(_mode[0]), samples, optimizer=keras.optimizers.Muon(0.01))


@case(FLOAT16)
def loss_scaling(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=2.0**40)
    return on_tokens(masked(_mode[0]), samples, optimizer=optimizer)


@case()
def nested_scopes(samples: int) -> dict[str, Any]:
    with scope(_mode[0]):
        x = inputs = keras.Input((6,))
        x = Block(6, name="first")(x)
        with keras.RematScope(mode=None):
            x = layers.Dense(6, "gelu")(x)
        with scope(_mode[0] and "list_of_layers"):
            x = Block(6, name="block")(layers.Dense(6, "tanh")(x))
        x = layers.Dropout(0.2, seed=8)(Block(6, name="last")(x))
    return on_numbers(keras.Model(inputs, layers.Dense(3, "softmax")(x)), samples)


@case()
def shared_and_frozen_layers(samples: int) -> dict[str, Any]:
    with scope(_mode[0]):
        inputs = keras.Input((6,))
        shared = keras.Sequential([layers.Dense(6, "gelu"), layers.LayerNormalization(), layers.Dense(6)])
        frozen = layers.Dense(6, "tanh", trainable=False)
        x = shared(frozen(shared(inputs)))
        x = layers.Dense(6, "gelu", kernel_regularizer="l2")(layers.add([x, shared(x)]))
    return on_numbers(keras.Model(inputs, layers.Dense(3, "softmax")(x)), samples)


@case()
def sparse_gradients(samples: int) -> dict[str, Any]:
    with scope(_mode[0]):
        ids = keras.Input((7,), dtype="int32")
        table = layers.Embedding(20, 6, mask_zero=True)
        x = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(table(ids))
        x = layers.TimeDistributed(layers.Dense(6, "gelu"))(layers.LayerNormalization()(x))
        x = layers.GlobalMaxPooling1D()(layers.Attention()([x, x]))
    model = keras.Model(ids, layers.Dense(3, "softmax")(x))
    return on_tokens(model, samples, optimizer=keras.optimizers.Adagrad(0.1))


class Classifier(keras.Model):
    """Has its layers' scopes from where they are made, and is built by `fit`."""

    def __init__(self) -> None:
        super().__init__()
        with scope(_mode[0]):
            self.blocks = [Block(6) for _ in range(3)]
        self.head = layers.Dense(3, "softmax")

    def call(self, x: Any, training: bool = False) -> Any:
        for block in self.blocks:
            x = block(x, training=training)
        return self.head(x)


@case()
def subclassed_model(samples: int) -> dict[str, Any]:
    return on_numbers(Classifier(), samples, optimizer=keras.optimizers.RMSprop(0.01, momentum=0.5))


@case()
def two_outputs(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    with scope(_mode[0]):
        inputs = keras.Input((6,))
        trunk = Block(6)(layers.Dense(6, "gelu")(inputs))
        side = layers.Dense(4, "gelu")(trunk)
    outputs = {"a": layers.Dense(3, "softmax", name="a")(trunk), "b": layers.Dense(1, name="b")(side)}
    loss = {"a": "sparse_categorical_crossentropy", "b": "mse"}
    optimizer = keras.optimizers.Adam(0.01)
    settings = {"optimizer": optimizer, "loss": loss, "loss_weights": {"a": 0.3, "b": 2.0}}
    return fitted(keras.Model(inputs, outputs), x, {"a": y, "b": x[:, :1]}, settings) | ONLY_TRAINED


class TwoPasses(keras.Model):
    """Takes gradients twice of one tape."""

    def __init__(self) -> None:
        super().__init__()
        with scope(_mode[0]):
            self.blocks = [layers.Dense(6, "gelu"), layers.LayerNormalization(), layers.Dense(6, "gelu")]
        self.head = layers.Dense(3, "softmax")

    def call(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.compute_loss(x, y, self(x))
        head = self.head.trainable_variables
        trunk = [weight for block in self.blocks for weight in block.trainable_variables]
        gradients = [*tape.gradient(loss, trunk), *tape.gradient(loss, head)]
        self.optimizer.apply_gradients(zip(gradients, [*trunk, *head], strict=True))
        return {"loss": loss}


@case()
def two_passes_over_a_tape(samples: int) -> dict[str, Any]:
    return on_numbers(TwoPasses(), samples)


class Scaled(layers.Layer):
    """Gives a function that is computed again a weight that was read before, and another layer's inside."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), name="kernel")
        self.inner = layers.Dense(shape[-1], "gelu")
        self.inner.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        function = self.mixed if _mode[0] is None else keras.remat(self.mixed)
        x = function(x, self.kernel.value)
        return function(x, keras.ops.transpose(self.kernel))

    def mixed(self, x: Any, kernel: Any) -> Any:
        return x + keras.ops.sin(self.inner(keras.ops.tanh(x @ kernel)))


@case()
def weight_as_an_argument(samples: int) -> dict[str, Any]:
    x = inputs = keras.Input((6,))
    for _ in range(3):
        x = Scaled()(layers.Dense(6, "gelu")(x))
    return on_numbers(keras.Model(inputs, layers.Dense(3, "softmax")(x)), samples)


def main(arguments: list[str]) -> None:
    if arguments[0] == "kept":
        _mode[0] = None
        del arguments[0]
    out, samples, *names = arguments
    write_outcomes(out, names or tuple(CASES), lambda name: outcome_of(CASES[name], int(samples)))


if __name__ == "__main__":
    main(sys.argv[1:])
