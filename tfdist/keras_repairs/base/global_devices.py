"""Repairs of what the TensorFlow backend says of devices and processes: `keras.distribution` is to know all workers.

The devices of a run are numbered in the order of the workers: `cpu:0` of the first one, `cpu:1` of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.workers import worker_count, worker_rank

Function = Callable[..., Any]


def devices_of_all(strategy: tf.distribute.Strategy) -> list[str]:
    """The devices of all replicas, as `keras.distribution.list_devices` names them: "gpu:0"."""
    if worker_count(strategy) > 1:
        return [f"{_type_of(strategy)}:{number}" for number in range(strategy.num_replicas_in_sync)]
    specs = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    return [f"{spec.device_type}:{spec.device_index}".lower() for spec in specs]


def list_devices(original: Function) -> Function:
    """Repairs `list_devices`: on several workers these are the devices of all of them."""

    def repaired(device_type: str | None = None) -> list[str]:
        strategy = tf.distribute.get_strategy()
        if worker_count(strategy) == 1 or (device_type or _type_of(strategy)).lower() != _type_of(strategy):
            return list(original(device_type))
        return devices_of_all(strategy)

    return repaired


def get_device_count(original: Function | None) -> Function:
    """Repairs `get_device_count`, which the backend lacks."""
    from keras.src.backend.tensorflow import distribution_lib

    return lambda device_type=None: len(distribution_lib.list_devices(device_type))


def num_processes(original: Function | None) -> Function:
    """Repairs `num_processes`, which the backend lacks: to Keras, and to a script that asks, the run is one process.

    It has all devices, and all of the data: Keras would else keep a share of them on each worker, which tfdist would
    share out once more.
    """
    return lambda: 1


def process_id(original: Function | None) -> Function:
    """Repairs `process_id`, which the backend lacks; see `num_processes`."""
    return lambda: 0


def initialize(original: Function | None) -> Function:
    """Repairs `initialize`, which the backend lacks: the workers have met before the script begins.

    Raises:
        UsageError: The script expects another number of workers, or that this is another one.
    """

    def repaired(job_addresses: Any = None, num_processes: int | None = None, process_id: int | None = None) -> None:
        strategy = tf.distribute.get_strategy()
        count, rank = worker_count(strategy), worker_rank(strategy)
        if num_processes not in (None, count) or process_id not in (None, rank):
            raise UsageError(
                "keras.distribution.initialize expects the workers of the run, which tfdist has started: worker "
                f"{rank} of {count}. Received: num_processes={num_processes}, process_id={process_id}. Leave the "
                "arguments out, or start as many workers (tfdist train --nproc, --workers)."
            )

    return repaired


def distribute_tensor(original: Function | None) -> Function:
    """Repairs `distribute_tensor`, which the backend lacks: a layout of a tensor changes no value."""
    return lambda tensor, layout: tensor


def _type_of(strategy: tf.distribute.Strategy) -> str:
    device = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0])
    return str(device.device_type).lower()
