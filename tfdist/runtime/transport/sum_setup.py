"""Sets up what sums over the workers, where that is not TensorFlow's own path."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.net.host_links import MOST_WORKERS, LinkEnds
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.ring_all_reduce import Ring, sum_now
from tfdist.runtime.transport.shared_memory.shared_memory import SharedMemory, operations_over
from tfdist.runtime.transport.shared_memory.shared_memory_sums import HostSums, SharedMemorySums


def set_up_sums(
    strategy: tf.distribute.Strategy, communication: str, workers: int, links: Sequence[LinkEnds]
) -> int | None:
    """Sets up the sums of a strategy of several workers; all of them call it together.

    Args:
        strategy: Theirs.
        communication: `"shm"`, `"shm+ring"`, `"ring"` or `"nccl"`.
        workers: How many.
        links: This worker's ends of the sets of links to the others on its host. What is not used is closed.

    Returns:
        How many hosts sum in memory before they send; None where none does.

    Raises:
        UsageError: Memory that workers share was asked for, and none do.
    """
    settings = settings_of(strategy)
    with contextlib.ExitStack() as unused:
        for ends in links:
            unused.callback(ends.close)
        # NCCL's sums take TensorFlow's own path, and so do those of several replicas of a worker.
        if communication == "nccl":
            settings.between_devices = _engine_between_devices(strategy, workers)
            return None
        if strategy.num_replicas_in_sync > workers:
            return None
        if communication == "shm":
            unused.pop_all()
            settings.memory = SharedMemory.over(links)
            settings.sums = SharedMemorySums(settings.memory.of_functions)
            return None
        linked = links if communication == "shm+ring" else ()
        sends = not linked or linked[0].rank == 0
        hosts = int(sum_now(np.array([sends], np.int32), workers)[0])
        if hosts == workers and communication == "shm+ring":
            raise UsageError(
                "--communication shm needs several workers on the CPUs of a host, which one launcher starts: at most "
                f"{MOST_WORKERS} of them. Received: workers that share no memory; where the system refuses it, the "
                "launcher has said so. Use --communication auto."
            )
        if hosts == workers:
            settings.sums = Ring(workers)
            return None
        unused.pop_all()
        for ends in linked[1:]:
            ends.close()
        operations = operations_over(linked[0]) if linked else None
        settings.sums = HostSums(operations, hosts, linked[0].linked if linked else ())
        return hosts


def _engine_between_devices(strategy: tf.distribute.Strategy, workers: int) -> TensorFlowEngine | None:
    """Returns what carries tensors between the devices of workers, in one order with what TensorFlow does; one device
    each."""
    if strategy.num_replicas_in_sync > workers:
        return None
    (device,) = strategy.extended.worker_devices
    (launcher,) = strategy.extended._cross_device_ops._launchers
    implementation = settings_of(strategy).nccl
    assert implementation is not None, "a strategy that takes the paths of NCCL"
    return TensorFlowEngine(device, implementation, launcher._ordering_token.handle)
