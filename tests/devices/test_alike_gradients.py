"""Steps that run whole: replicas whose kernels round otherwise keep the same weights."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import tokens
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.replica_step import replica_id

pytestmark = pytest.mark.usefixtures("repaired")


class Contrasting(keras.Model):
    """Compares all samples with all; what replicas round is made larger."""

    def train_step(self, data: Any) -> Any:
        texts, _ = data
        with tf.GradientTape() as tape:
            found = self(texts, training=True)
            loss = keras.ops.mean(keras.ops.logsumexp(found @ keras.ops.transpose(found), axis=1))
            context = tf.distribute.get_replica_context()
            rounded = 1 + 1e-4 * tf.cast(replica_id() if context is not None else 0, loss.dtype)
            loss = loss * rounded
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


@pytest.mark.parametrize("eagerly", [False, slow(True)])
def test_they_take_the_gradients_of_the_first_one(eagerly: bool) -> None:
    strategy = mirrored(3)
    with strategy.scope():
        keras.utils.set_random_seed(4)
        inputs = keras.Input((7,), dtype="int32")
        hidden = keras.layers.Flatten()(keras.layers.Embedding(20, 4)(inputs))
        model = Contrasting(inputs, keras.layers.Dense(3)(hidden))
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=eagerly)
        texts = tokens(10)
        model.fit(texts, texts[:, 0], batch_size=5, verbose=0)
    for variable in model.trainable_variables:
        first, *others = (copy.numpy() for copy in strategy.experimental_local_results(variable.value))
        for other in others:
            np.testing.assert_array_equal(first, other)
