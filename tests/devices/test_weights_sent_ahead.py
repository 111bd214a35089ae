"""Tests of when the weights of the next layer are put together, in the graph of a step of two workers."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.keras_repairs.sharded_parameters import gathered_reads
from tfdist.keras_repairs.sharded_parameters.cut_variable import cut_variable, flat_shard
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import worker_lane
from tfdist.runtime.transport.ring_all_reduce import Ring
from tfdist.sharding import Mesh, Sharding

LAYERS, WIDTH = 5, 8
MEETINGS = ("CollectiveGatherV2", "CollectiveAllToAllV2")


class Step:
    """The traced graph of a forward and a backward pass over Dense layers whose kernels are cut in two."""

    def __init__(self) -> None:
        strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        with strategy.scope():
            hidden = [keras.layers.Dense(WIDTH, "tanh", use_bias=False) for _ in range(LAYERS)]
            model = keras.Sequential([keras.Input((WIDTH,)), *hidden])
            settings = settings_of(strategy)
            settings.shard, settings.sums = Sharding("zero3", Mesh.of(shard=2)), Ring(2)
            for layer in hidden:
                cut_variable(layer.kernel, flat_shard(layer.kernel, strategy))
            graph = tf.function(self._gradients).get_concrete_function(model, tf.TensorSpec([4, WIDTH])).graph
        self.operations: list[Any] = graph.get_operations()
        products = self._of("MatMul")
        self.forward = products[:LAYERS]
        """The product of each layer in the forward pass."""
        self.backward = [op for op in products[LAYERS:] if not op.get_attr("transpose_a")][::-1]
        """That by which each layer but the first gives the gradient of its inputs."""
        self.gathers = self._of("CollectiveGatherV2")

    def _gradients(self, model: keras.Model, x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    def _of(self, *kinds: str) -> list[Any]:
        return [op for op in self.operations if op.type in kinds]

    def before(self, op: Any) -> set[Any]:
        """All that must run before an operation."""
        found: set[Any] = set()
        waiting = [op]
        while waiting:
            each = waiting.pop()
            new = {*(tensor.op for tensor in each.inputs), *each.control_inputs} - found
            found |= new
            waiting.extend(new)
        return found

    @property
    def meetings(self) -> list[Any]:
        """The operations in which the workers meet."""
        return self._of(*MEETINGS)


@pytest.fixture(autouse=True)
def _two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    monkeypatch.setattr(worker_lane, "worker_count", lambda strategy: 2)


def test_forward_a_layer_is_put_together_while_the_one_before_it_computes() -> None:
    step = Step()
    for number in range(1, LAYERS):
        before = step.before(step.gathers[number])
        assert step.forward[number - 1] not in before
        # No more than two are whole.
        assert all(op in before for op in step.forward[: number - 1])


def test_backward_a_layer_is_put_together_while_the_one_after_it_computes() -> None:
    step = Step()
    again = step.gathers[LAYERS:]
    # The pass takes no gradient by the inputs of the first layer, and does not read its weight.
    assert len(again) == len(step.backward) == LAYERS - 1
    backward = step.backward[::-1]
    for number in range(1, LAYERS - 1):
        before = step.before(again[number])
        assert backward[number - 1] not in before
        assert all(op in before for op in backward[: number - 1])
        assert again[number] in step.before(backward[number])


def test_workers_meet_in_the_order_in_which_it_is_traced() -> None:
    step = Step()
    assert [op.type for op in step.meetings[LAYERS:]] == [
        "CollectiveGatherV2", *["CollectiveGatherV2", "CollectiveAllToAllV2"] * (LAYERS - 2),
        *["CollectiveAllToAllV2"] * 2,
    ]  # fmt: skip
    # Keys are by what is carried and its size, so that no two may be under way at once.
    for op, following in zip(step.meetings, step.meetings[1:], strict=False):
        assert op in step.before(following)


def test_nothing_is_sent_ahead_where_memory_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_reads, "memory_of_group", lambda settings: object())
    step = Step()
    for number in range(1, LAYERS):
        assert step.forward[number - 1] in step.before(step.gathers[number])
    backward = step.backward[::-1]
    for number in range(1, LAYERS - 1):
        assert backward[number - 1] in step.before(step.gathers[LAYERS + number])
