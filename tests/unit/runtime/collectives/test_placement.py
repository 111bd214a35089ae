"""Which values go from device to device: those on which all workers agree, where all come to them in one order."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.runtime.collectives.played_workers import MirrorEngine, Network, PlayedEngine
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.wire.engine import Channel
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine

SUM, GATHER = Call("all_reduce", "sum"), Call("all_gather")
LARGE = 1000


class DeviceMirror(MirrorEngine):
    """Another worker on a device, which stands for a GPU."""

    device = "/job:localhost/replica:0/task:0/device:CPU:0"


class PlayedDevices(PlayedEngine):
    device = DeviceMirror.device


def mirrored() -> tuple[Communicator, list[str], list[str]]:
    """The first of two workers that give the same, with what travels by the host and what between devices."""
    host, devices = MirrorEngine(), DeviceMirror()
    own: Any = devices
    return Communicator(0, 2, host, between_devices=own), host.asked, devices.asked


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("size", [LARGE, LARGE + 1])
def test_what_lies_on_a_device_stays_there_to_the_bit(dtype: str, size: int) -> None:
    own, host, devices = mirrored()
    given = tf.cast(tf.range(size) % 7, dtype)
    assert own.run(SUM, given).numpy().tolist() == (2 * given).numpy().tolist()
    assert own.run(GATHER, given).numpy().tolist() == 2 * [given.numpy().tolist()]
    assert devices == ["all_reduce", "all_gather"]
    assert host == ["all_gather", "all_gather"]  # that they agree


@pytest.mark.parametrize(
    "given",
    [np.ones(LARGE, np.float32), tf.ones([LARGE], tf.int32), tf.ones([LARGE], tf.uint8), np.full(LARGE, "texts")],
    ids=["array", "int32", "uint8", "texts"],
)
def test_all_else_goes_over_the_host(given: Any) -> None:
    own, _, devices = mirrored()
    found = own.run(GATHER, {"given": given, "on a device": tf.ones([LARGE])})
    assert np.asarray(found["given"]).tolist() == 2 * [np.asarray(given).tolist()]
    assert devices == ["all_gather"]
    devices.clear()
    own.run(GATHER, given)
    assert devices == []


def test_what_comes_in_no_order_goes_over_the_host() -> None:
    own, _, devices = mirrored()
    given = tf.ones([LARGE])
    own.run(SUM, given, async_op=True).wait()
    with concurrent.futures.ThreadPoolExecutor(1) as other_thread:
        other_thread.submit(own.run, SUM, given).result()
        other_thread.submit(tf.function(lambda: own.run(SUM, given))).result()
    assert devices == []


def test_a_function_keeps_its_values_on_the_device_but_for_a_gradient_that_tensorflow_does_not_order() -> None:
    own, _, devices = mirrored()
    function = tf.function(lambda given: own.run(SUM, given) * own.run(SUM, given))

    @tf.function
    def inside(given: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(own.run(SUM, given))
        return tape.gradient(loss, given)

    given = tf.ones([3])
    inside(given)
    assert devices == ["all_reduce", "all_reduce"]
    devices.clear()
    with tf.GradientTape() as outside:
        outside.watch(given)
        loss = function(given)
    forward = list(devices)
    assert forward and set(forward) == {"all_reduce"}
    outside.gradient(loss, given)
    assert devices == forward


@pytest.mark.parametrize("kind", ["thread", "array", "nothing"])
def test_workers_agree_on_the_way(kind: str) -> None:
    """One worker calls in another thread, or gives an array; one that gives nothing takes the way of the giver."""
    network, between = Network(), Network()

    def communicator(worker: int, *, has_device: bool) -> Communicator:
        devices: Any = PlayedDevices(between) if has_device else None
        return Communicator(worker, 2, PlayedEngine(network), between_devices=devices)

    given = tf.ones([LARGE])
    values = {"thread": given, "array": given.numpy(), "nothing": given}
    call = Call("broadcast", root=0) if kind == "nothing" else SUM
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        other = thread.submit(communicator(1, has_device=True).run, call, None if kind == "nothing" else values[kind])
        own = communicator(0, has_device=True).run(call, given)
        assert np.asarray(other.result()).tolist() == own.numpy().tolist()
    assert not between.carried


def test_between_devices_functions_run_collectives_in_the_order_of_the_program() -> None:
    order = tf.Variable(0.0)
    engine = TensorFlowEngine("CPU:0", "ring", order.handle)
    on_device = TensorFlowEngine("/device:CPU:0", "ring", order.handle)

    @tf.function
    def traced(given: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        first = on_device.all_reduce(given, "sum", Channel((0, 1), 0, 5, 1))
        second = on_device.all_gather(given, Channel((0, 1), 0, 7, 2))
        return first, second, engine.all_to_all(given, Channel((0, 1), 0, 5, 3))

    graph = traced.get_concrete_function(tf.TensorSpec([4])).graph
    collectives = [op for op in graph.get_operations() if op.type.startswith("Collective")]
    assert [op.type for op in collectives] == ["CollectiveReduceV2", "CollectiveGatherV2", "CollectiveAllToAllV2"]
    for earlier, later in zip(collectives, collectives[1:], strict=False):
        assert earlier in later.control_inputs
    keys = [tf.get_static_value(op.inputs[2]) for op in collectives]
    assert keys == [-5, -7, 5]  # TensorFlow binds a key to the kind of device
