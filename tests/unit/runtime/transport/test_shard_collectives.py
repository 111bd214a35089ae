"""Reduce-scatter and all-gather over TensorFlow's collectives, as a worker traces them."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tfdist.runtime import strategy_settings
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.collectives.wire.groups import group_key
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import shard_collectives, shard_groups, worker_lane
from tfdist.runtime.transport.ring_all_reduce import Ring
from tfdist.sharding import Mesh, Sharding
from tfdist.sharding.cut import evenly
from tfdist.sharding.mesh import AxisName


def traced(sizes: list[int | None], shape: tuple[int, ...], rank: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The graph in which worker `rank` of four, in two groups, sums a gradient of `shape`, known by `sizes`."""
    for module in (strategy_settings, shard_groups, worker_lane):
        monkeypatch.setattr(module, "worker_rank", lambda strategy: rank)
    monkeypatch.setattr(worker_lane, "worker_count", lambda strategy: 4)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    settings = settings_of(strategy)
    settings.shard, settings.sums = Sharding("zero2", Mesh.of(data=2, shard=2)), Ring(4)
    with strategy.scope():

        def summed(gradient: tf.Tensor) -> list[tf.Tensor]:
            return shard_collectives.reduce_scatter_gradients([gradient], [evenly(shape, 2)])

        return tf.function(summed).get_concrete_function(tf.TensorSpec(sizes, tf.float64))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("rank", [0, 3])
def test_shards_are_gathered_between_devices_in_the_group_that_shares_them(
    rank: int, dtype: tf.DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (strategy_settings, shard_groups, worker_lane):
        monkeypatch.setattr(module, "worker_rank", lambda strategy: rank)
    monkeypatch.setattr(worker_lane, "worker_count", lambda strategy: 4)
    strategy, order, cut = tf.distribute.OneDeviceStrategy("CPU:0"), tf.Variable(0.0), evenly((3, 5), 2)
    settings = settings_of(strategy)
    settings.shard = Sharding("zero2", Mesh.of(data=2, shard=2))
    settings.between_devices = TensorFlowEngine("/device:CPU:0", "ring", order.handle)
    with strategy.scope():
        shard = tf.TensorSpec([cut.shard_size(rank % 2)], dtype)
        function = tf.function(lambda given: shard_collectives.all_gather([given], [cut])).get_concrete_function(shard)
    assert function.output_shapes == [(3, 5)]
    (gather,) = [op for op in function.graph.get_operations() if op.type.startswith("Collective")]
    assert gather.type == "CollectiveGatherV2"
    group = (0, 1) if rank < 2 else (2, 3)
    assert [tf.get_static_value(gather.inputs[place]) for place in (1, 2)] == [2, -group_key(group, 4)]
    assert len(gather.inputs) == 5  # the resource by which functions order it


@pytest.mark.parametrize(("names", "group"), [(["data"], (1, 3)), (["data", "shard"], (0, 1, 2, 3))])
def test_shards_are_gathered_in_a_group_of_their_own(
    names: list[AxisName], group: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lane, "worker_rank", lambda strategy: 3)
    monkeypatch.setattr(worker_lane, "worker_count", lambda strategy: 4)
    cut, found = evenly((3, 5), len(group)), Mesh.of(data=2, shard=2).shard_group(names, 3)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        shard = tf.TensorSpec([cut.shard_size(found.share)], tf.float64)
        function = tf.function(lambda given: shard_collectives.all_gather_one(given, cut, found))
        operations = function.get_concrete_function(shard).graph.get_operations()
    (gather,) = [op for op in operations if op.type.startswith("Collective")]
    assert tf.get_static_value(gather.inputs[2]) == group_key(group, 4)


def kinds(function: Any) -> list[str]:
    return [op.type for op in function.graph.get_operations() if op.type.startswith("Collective")]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gradient_that_does_not_know_its_shape(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function = traced([None, None], (3, 5), rank, monkeypatch)
    assert function.output_shapes == [(evenly((3, 5), 2).shard_size(rank),)]
    assert kinds(function) == ["CollectiveAllToAllV2", "CollectiveReduceV2"]


@pytest.mark.parametrize(
    ("rank", "size", "between"),
    [(0, 0, []), (1, 1, ["CollectiveReduceV2"]), (2, 0, []), (3, 1, ["CollectiveReduceV2"])],
)
def test_nothing_is_sent_between_workers_whose_shard_is_empty(
    rank: int, size: int, between: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    function = traced([1], (1,), rank, monkeypatch)
    assert function.output_shapes == [(size,)]
    assert kinds(function) == ["CollectiveAllToAllV2", *between]
