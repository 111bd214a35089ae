"""The order of the workers, which TensorFlow takes for texts, on a stand-in for its operations."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tfdist.runtime.collectives.wire.engine import Channel
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine

WORKERS = (1, 2, 9, 10, 11)
AS_TEXTS = [1, 10, 11, 2, 9]


@pytest.mark.parametrize("place", range(5))
def test_workers_are_in_their_order_among_more_than_ten(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker gives 100 times its own index, and to each other besides the other's."""
    own = WORKERS[place]

    def gather(input: tf.Tensor, **_: Any) -> tf.Tensor:
        return tf.constant([100 * worker for worker in AS_TEXTS])

    def exchange(input: tf.Tensor, **_: Any) -> tf.Tensor:
        assert input[:, 0].numpy().tolist() == [100 * own + worker for worker in AS_TEXTS]
        return tf.constant([[100 * worker + own] for worker in AS_TEXTS])

    monkeypatch.setattr(tf.raw_ops, "CollectiveGatherV2", gather)
    monkeypatch.setattr(tf.raw_ops, "CollectiveAllToAllV2", exchange)
    engine, channel = TensorFlowEngine(), Channel(WORKERS, place, 1, 1)
    assert engine.all_gather(tf.constant([100 * own]), channel).numpy().tolist() == [100 * other for other in WORKERS]
    given = tf.constant([100 * own + other for other in WORKERS])
    assert engine.all_to_all(given, channel).numpy().tolist() == [100 * other + own for other in WORKERS]
    assert engine.reduce_scatter(given, "max", channel).numpy().tolist() == [1100 + own]
