"""Tests of the graph of a step of two workers that computes layers again of whose weights each has a part."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.exactness.recomputed_features import Scaled
from tfdist import keras_repairs
from tfdist.keras_repairs import recomputation
from tfdist.keras_repairs.sharded_parameters import second_gathers
from tfdist.keras_repairs.sharded_parameters.cut_variable import cut_variable, flat_shard
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import worker_lane
from tfdist.runtime.transport.ring_all_reduce import Ring
from tfdist.sharding import Mesh, Sharding

WIDTH = 6


def traced() -> list[Any]:
    """The operations of a forward and a backward pass; functions that are computed again get weights as arguments."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        x = inputs = keras.Input((WIDTH,))
        hidden = []
        for _ in range(2):
            dense, scaled = keras.layers.Dense(WIDTH, "gelu"), Scaled()
            x = scaled(dense(x))
            hidden += [dense, scaled, scaled.inner]
        model = keras.Model(inputs, x)
        settings = settings_of(strategy)
        settings.shard, settings.sums = Sharding("zero3", Mesh.of(shard=2)), Ring(2)
        for layer in hidden:
            cut_variable(layer.kernel, flat_shard(layer.kernel, strategy))

        def gradients(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x) ** 2)
            return tape.gradient(loss, model.trainable_variables)

        graph = tf.function(gradients).get_concrete_function(tf.TensorSpec([4, WIDTH])).graph
    operations: list[Any] = graph.get_operations()
    return operations


def never_run(operations: list[Any]) -> list[str]:
    """The operations that wait for themselves, or for such ones."""
    waits_for = {op: {*(tensor.op for tensor in op.inputs), *op.control_inputs} for op in operations}
    done: set[Any] = set()
    left = list(operations)
    while ready := [op for op in left if waits_for[op] <= done]:
        done.update(ready)
        left = [op for op in left if op not in done]
    return [op.name for op in left]


@pytest.fixture(autouse=True)
def _two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    monkeypatch.setattr(worker_lane, "worker_count", lambda strategy: 2)


def test_weights_that_were_read_before_a_call_are_put_together_again_for_it() -> None:
    operations = traced()
    assert not never_run(operations)
    hidden = [op for op in operations if op.type == "Tanh"]
    first, again = hidden[:4], hidden[4:]
    assert len(again) == len(first)
    begin = again[0]._id
    assert not [reader.name for op in first for reader in op.outputs[0].consumers() if reader._id > begin]


def test_what_a_copy_waits_for_does_not_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies read a weight of the forward pass that is put together again after sums that need the copies."""
    monkeypatch.setattr(recomputation.second_gathers, "read_of", lambda tensor: None)
    assert not never_run(traced())
    monkeypatch.setattr(second_gathers, "needed_by", lambda graph, operations, begin: set())
    assert never_run(traced())
