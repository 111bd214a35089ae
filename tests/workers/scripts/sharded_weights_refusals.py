"""Says with which errors a run of which each worker holds a part of the weights refuses what it cannot do."""

import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

X = np.random.default_rng(1).normal(size=(32, 6)).astype("float32")
Y = np.random.default_rng(2).integers(0, 3, 32)


def built() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")])


def loss_of(model: keras.Model) -> tf.Tensor:
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(Y[:4], model(X[:4])))


def by_hand(gradients_of: Callable[[keras.Model], Any]) -> None:
    model, optimizer = built(), keras.optimizers.Adam()

    @tf.function
    def step() -> None:
        optimizer.apply(gradients_of(model), model.trainable_variables)

    tf.distribute.get_strategy().run(step)


def clipped(model: keras.Model) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        loss = loss_of(model)
    return [tf.clip_by_norm(one, 0.1) for one in tape.gradient(loss, model.trainable_variables)]


def of_gradients(model: keras.Model) -> list[tf.Tensor]:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            loss = loss_of(model)
        norm = tf.add_n([tf.reduce_sum(one**2) for one in tape.gradient(loss, model.trainable_variables)])
    gradients: list[tf.Tensor] = outer.gradient(norm, model.trainable_variables)
    return gradients


def exported() -> None:
    built().export("never")


calls = {
    "clipping": lambda: by_hand(clipped),
    "gradient of a gradient": lambda: by_hand(of_gradients),
    "export": exported,
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = "nothing"
    except Exception as error:  # All are said, whatever they are.
        said[name] = str(error)
print(json.dumps(said))
