"""Makes what sharded embeddings do not go together with, and says the errors; on two workers."""

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

layers = keras.layers
X, Y = np.arange(32).reshape(8, 4) % 11, np.arange(8) % 2
said: dict[str, str] = {}


@contextlib.contextmanager
def refused(name: str) -> Iterator[None]:
    try:
        yield
        said[name] = "nothing"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"


class Tied(keras.Model):
    """Its output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = tfdist.layers.ShardedEmbedding(11, 3)

    def call(self, x: Any) -> Any:
        return tf.matmul(tf.reduce_mean(self.words(x), 1), self.words.embeddings, transpose_b=True)


def train(model: keras.Model, optimizer: Any = "sgd") -> None:
    model.compile(optimizer, "mse")
    model.fit(X, Y.astype("float32"), batch_size=4, verbose=0)


def model_of(table: Any) -> keras.Model:
    return keras.Sequential([keras.Input((4,)), table, layers.GlobalAveragePooling1D(), layers.Dense(1)])


class Own(layers.Embedding):
    """May do what it likes with its table."""


with refused("tied"):
    Tied()(tf.constant(X))
with refused("multiplied"):
    model_of(layers.Embedding(11, 3, name="big")).layers[0].embeddings * 2.0
with refused("rows"):
    tfdist.layers.ShardedEmbedding(1, 3).build()
with refused("lora"):
    tfdist.layers.ShardedEmbedding(11, 3, lora_rank=2).build()
with refused("constraint"):
    tfdist.layers.ShardedEmbedding(11, 3, embeddings_constraint="max_norm").build()
with refused("regularizer"):
    tfdist.layers.ShardedEmbedding(11, 3, embeddings_regularizer=keras.regularizers.OrthogonalRegularizer()).build()
with refused("sizes"):
    tfdist.layers.ShardedEmbedding(11 + tfdist.worker_index(), 3).build()
with refused("lamb"):
    train(model_of(layers.Embedding(11, 3, name="words")), keras.optimizers.Lamb())
with refused("export"):
    model_of(layers.Embedding(11, 3, name="words")).export("never")
with refused("shape"):
    model_of(tfdist.layers.ShardedEmbedding(11, 3)).layers[0].set_weights([np.zeros((5, 3))])

logging.captureWarnings(True)
own, small = Own(11, 3), layers.Embedding(10, 3)
own.build()
small.build()
said["whole"] = str([tuple(layer.embeddings.shape) for layer in (own, small)])
with refused("ids"):
    model_of(layers.Embedding(11, 3)).predict(np.array([[1, 2, 11, 40]] * 4), verbose=0)
print(json.dumps(said))
