"""Placement: which tensors of a call go from device to device, alike on all workers of the call.

What lies on a GPU goes over NCCL, whose kernels want one order (see `engines`). All else goes over the host.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Sequence

import tensorflow as tf

from tfdist.runtime.collectives.values import Leaf, Values
from tfdist.runtime.collectives.wire.wire_dtypes import ON_DEVICES

ANYWHERE = 0
"""The placement that a worker tells where it gives no values."""

_HOST = 1


def is_ordered(*, async_op: bool) -> bool:
    """Returns whether a call that is made now comes at its place in the one order of all that this process does on its
    device.

    Args:
        async_op: Whether the call waits for nothing.
    """
    if async_op:
        return False
    is_main = threading.current_thread() is threading.main_thread()
    if tf.executing_eagerly():
        return is_main
    # A step of strategy.run is traced in a thread of its own, and runs as a part of the function around it.
    is_step = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
    return (is_main or is_step) and _orders_operations(tf.compat.v1.get_default_graph())


def on_device(leaves: Sequence[Leaf], device: str) -> tuple[int, ...]:
    """Returns which leaves an engine between devices can carry: in eager code those that lie on this worker's.

    Args:
        leaves: Of a value.
        device: This worker's.
    """
    return tuple(
        place
        for place, leaf in enumerate(leaves)
        if leaf.array is None and leaf.tensor.dtype in ON_DEVICES and _lies_on(leaf.tensor, device)
    )


def said(places: Sequence[int]) -> int:
    """Returns what a worker tells the others of its leaves that can go from device to device, 32 bits."""
    return zlib.crc32(json.dumps(list(places)).encode()) | 2 if places else _HOST


def agreed(told: Sequence[int], values: Values) -> tuple[int, ...]:
    """The leaves that go from device to device, by what all workers have told.

    Args:
        told: By each worker.
        values: As all of them have them, with those of a worker that gives some or none.
    """
    places = tuple(place for place, leaf in enumerate(values.leaves) if _could(leaf))
    chosen = {each for each in told if each != ANYWHERE}
    return places if chosen == {said(places)} and places else ()


def _could(leaf: Leaf) -> bool:
    return leaf.array is None and leaf.tensor.dtype in ON_DEVICES


def _lies_on(tensor: tf.Tensor, device: str) -> bool:
    if not tf.executing_eagerly():
        return True  # where TensorFlow puts it
    found, own = tf.DeviceSpec.from_string(tensor.backing_device), tf.DeviceSpec.from_string(device)
    return (found.device_type, found.device_index) == (own.device_type, own.device_index)


def _orders_operations(graph: tf.Graph) -> bool:
    """Returns whether TensorFlow orders the operations with effects of a function, and of those around it.

    It does not in the gradient of a function, whose tape is outside.
    """
    while isinstance(graph, tf.__internal__.FuncGraph):
        if graph.experimental_acd_manager is None:
            return False
        graph = graph.outer_graph
    return True
