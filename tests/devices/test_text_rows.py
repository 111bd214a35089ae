"""Texts, which no collective carries, gathered from the replicas as numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.coupling.gather_rows import all_rows

pytestmark = pytest.mark.usefixtures("repaired")

ROWS = [[[b"", b"cat"], [b"\xff\0x", b"dog"]], [["é" * 300, b"\0"]], []]
"""Of each replica: no text, zero bytes and bytes that are no UTF-8 among them."""


@pytest.mark.parametrize("pieces", [ROWS, [[[b"", b""]], [], []], [[], [], []]], ids=["texts", "empty", "none"])
def test_the_rows_of_all_replicas(pieces: list[Any]) -> None:
    def rows(context: Any) -> tf.Tensor:
        return tf.reshape(tf.constant(pieces[context.replica_id_in_sync_group], tf.string), [-1, 2])

    @tf.function
    def gathered(own: tf.Tensor) -> tf.Tensor:
        return all_rows(tf.compat.v1.placeholder_with_default(own, [None, 2]))

    strategy = mirrored(3)
    with strategy.scope():
        given = strategy.experimental_distribute_values_from_function(rows)
        found = strategy.experimental_local_results(strategy.run(gathered, (given,)))
    expected = tf.reshape(tf.constant([row for piece in pieces for row in piece], tf.string), [-1, 2]).numpy().tolist()
    assert [replica.numpy().tolist() for replica in found] == [expected] * 3


def test_a_metric_of_texts() -> None:
    class Same(keras.metrics.Metric):
        """The share of texts that are those of the sample before, which one replica alone does not know."""

        def __init__(self) -> None:
            super().__init__()
            self.same = self.add_weight(initializer="zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.same.assign_add(tf.reduce_sum(tf.cast(y_true[1:] == y_true[:-1], tf.float32)))

        def result(self) -> Any:
            return self.same

    words = np.array([["a"], ["b"], ["b"], ["b"], ["a"]])
    with mirrored(2).scope():
        metric = tfdist.gathered(Same())
        pieces = [tf.constant(words[:3]), tf.constant(words[3:])]
        given = mirrored(2).experimental_distribute_values_from_function(
            lambda context: pieces[context.replica_id_in_sync_group]
        )
        mirrored(2).run(tf.function(lambda y: metric.update_state(y, y)), (given,))
        assert float(metric.result()) == 2.0
