"""Chooses and sets up the devices of this process: GPUs, memory growth, logical devices, its share of the cores.

All of it must happen before TensorFlow touches a device, so `apply` is called once, first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime import gpu_memory


@dataclass(frozen=True)
class DeviceRequest:
    """The devices that a worker asks for.

    Attributes:
        gpus: Indices of the GPUs to use, of those that TensorFlow sees; all when None.
        logical: Into how many logical devices to split each GPU, or the CPU when there is no GPU; None: no split.
        memory_limit: MiB of GPU memory for each logical device (for the whole GPU without a split); None: no limit, or
            of a split GPU equal parts of nearly all of its memory.
        memory_growth: Whether to take GPU memory as it is needed. Not together with a limit or a split.
        local_rank: This worker's place among the workers of its machine.
        local_size: How many workers its machine runs.
        own_gpus: Whether this worker sees only GPUs that no other one uses; else the GPUs are dealt to the workers.
        sharing: How many of them the cores are shared by that this process may run on; None for all.

    Raises:
        UsageError: A value is out of its range.
    """

    gpus: tuple[int, ...] | None = None
    logical: int | None = None
    memory_limit: int | None = None
    memory_growth: bool = True
    local_rank: int = 0
    local_size: int = 1
    own_gpus: bool = False
    sharing: int | None = None

    def __post_init__(self) -> None:
        if self.logical is not None and self.logical < 1:
            raise UsageError(f"--logical-devices expects a number of at least 1. Received: {self.logical}")
        if self.memory_limit is not None and self.memory_limit < 1:
            raise UsageError(f"--memory-limit expects a number of MiB of at least 1. Received: {self.memory_limit}")


def deal(gpus: int, rank: int, size: int) -> range:
    """The indices, below `gpus`, of the GPUs of worker `rank` of a machine's `size` workers: disjoint, all used.

    Raises:
        UsageError: There are GPUs, but fewer than workers.
    """
    if 0 < gpus < size:
        raise UsageError(
            f"{size} workers on this machine need a GPU each. Received: {gpus} GPU(s). Start at most {gpus} worker(s) "
            "here, or split a GPU among replicas of one worker with --logical-devices."
        )
    return range(gpus * rank // size, gpus * (rank + 1) // size)


def share_of_cores(cores: int, size: int) -> int:
    """How many of a machine's `cores` each of its `size` workers computes with; at least one."""
    return max(1, cores // size)


def apply(request: DeviceRequest, *, workers: int = 1) -> list[str]:
    """Sets up TensorFlow's devices for this process.

    Args:
        request: What to use.
        workers: How many workers the whole cluster has.

    Returns:
        The names of the devices that replicas may run on, such as `["/device:CPU:0", "/device:CPU:1"]`.

    Raises:
        UsageError: A GPU that does not exist was asked for, or logical CPUs on several workers.
    """
    gpus = _choose(tf.config.list_physical_devices("GPU"), request)
    if request.local_size > 1:
        _share_cores(request.local_size if request.sharing is None else request.sharing)
    if gpus:
        _set_up_gpus(gpus, request)
        parts = sum(_parts_set_up(gpu) for gpu in gpus)
        return [f"/device:GPU:{i}" for i in range(parts)]
    if request.logical is None or request.logical == 1:
        parts = _parts_set_up(tf.config.list_physical_devices("CPU")[0]) if workers == 1 else 1
        return [f"/device:CPU:{i}" for i in range(parts)]
    if workers > 1:
        raise UsageError(
            f"--logical-devices splits the CPU for one worker alone: of several workers on the CPU, TensorFlow would "
            f"use one logical device each. Received: --logical-devices {request.logical} with {workers} workers. Leave "
            "out --logical-devices, or start one worker."
        )
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * request.logical)
    return [f"/device:CPU:{i}" for i in range(request.logical)]


def _choose(seen: Sequence[tf.config.PhysicalDevice], request: DeviceRequest) -> list[tf.config.PhysicalDevice]:
    chosen = list(seen)
    if request.gpus is not None:
        missing = [i for i in request.gpus if not 0 <= i < len(seen)]
        if missing:
            raise UsageError(
                f"--devices names GPU {missing[0]}, and TensorFlow sees {len(seen)} GPU(s) here. "
                + (f"Expected indices below {len(seen)}. " if seen else "Expected none. ")
                + f"Received: --devices {','.join(map(str, request.gpus))}. "
                + ("Choose others." if seen else "Leave --devices out to train on the CPU.")
            )
        chosen = [seen[i] for i in request.gpus]
    if request.own_gpus:
        return chosen
    mine = deal(len(chosen), request.local_rank, request.local_size)
    return [chosen[i] for i in mine]


def _parts_set_up(device: tf.config.PhysicalDevice) -> int:
    """How many logical devices it is set up as: here, or by a script before it asks for a strategy."""
    return len(tf.config.get_logical_device_configuration(device) or [device])


def _share_cores(size: int) -> None:
    cores = share_of_cores(len(os.sched_getaffinity(0)), size)
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    # One thread more than the computation needs: a collective must not wait for a core's thread to be free.
    tf.config.threading.set_inter_op_parallelism_threads(cores + 1)


def _set_up_gpus(gpus: Sequence[tf.config.PhysicalDevice], request: DeviceRequest) -> None:
    tf.config.set_visible_devices(list(gpus), "GPU")
    for gpu in gpus:
        parts = request.logical or 1
        if parts > 1 or request.memory_limit is not None:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=request.memory_limit or _share(gpu, parts))
            tf.config.set_logical_device_configuration(gpu, [limit] * parts)
        elif request.memory_growth and _parts_set_up(gpu) == 1:
            tf.config.experimental.set_memory_growth(gpu, True)


def _share(gpu: tf.config.PhysicalDevice, parts: int) -> int:
    """MiB of each part of a GPU; TensorFlow splits none without a limit."""
    total = gpu_memory.total_memory(int(gpu.name.rpartition(":")[2]))
    if total is None:
        raise UsageError(
            f"CUDA's driver does not tell how much memory {gpu.name} has. Expected --memory-limit MiB, the memory of "
            f"each logical device. Received: --logical-devices {parts} without it."
        )
    return gpu_memory.share(total, parts)
