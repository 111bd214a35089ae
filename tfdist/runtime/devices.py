"""Chooses and sets up the devices of this process: GPUs, memory growth, logical devices, its share of the cores.

All of it must happen before TensorFlow touches a device, so `apply` is called once, first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from tfdist.errors import UsageError

_DRIVER = "libcuda.so.1"
_SHARE = 0.85
"""Of a GPU's memory, what its logical devices may take together: CUDA, cuDNN and NCCL need some for themselves."""
_MIB = 1 << 20


def total_memory(number: int, load: Callable[[str], Any] = ctypes.CDLL) -> int | None:
    """Bytes of a GPU; None where the driver does not tell.

    Args:
        number: Its number among those that this process sees.
        load: Loads a library by its name.
    """
    try:
        driver = load(_DRIVER)
        device, size = ctypes.c_int(), ctypes.c_size_t()
        codes = (
            driver.cuInit(0),
            driver.cuDeviceGet(ctypes.byref(device), number),
            driver.cuDeviceTotalMem_v2(ctypes.byref(size), device),
        )
    except (OSError, AttributeError):
        return None
    return None if any(codes) else size.value


def used_memory(devices: Sequence[str]) -> int | None:
    """Bytes that are in use on the fullest of some devices, by TensorFlow's names; None where none is a GPU."""
    used = []
    for device in devices:
        if "GPU" in device:
            # Raises for a GPU that TensorFlow has not taken, or whose allocator keeps no count.
            with contextlib.suppress(ValueError, tf.errors.OpError):
                used.append(int(tf.config.experimental.get_memory_info(device.removeprefix("/device:"))["current"]))
    return max(used, default=None)


def share(total: int, parts: int) -> int:
    """MiB of each logical device of a GPU that is split into `parts`."""
    return max(1, int(total * _SHARE / parts / _MIB))


def uses_onednn() -> bool:
    """Returns whether operations on the CPU are those of oneDNN, as TF_ENABLE_ONEDNN_OPTS and the build decide."""
    return bool(_pywrap_util_port.IsMklEnabled())


def replica_kernels() -> Literal["tensorflow", "onednn", ""]:
    """The kernels by which the replicas of this process compute, as `--kernels` calls them; empty on GPUs.

    Call it once the devices are chosen.
    """
    if tf.config.list_logical_devices("GPU"):
        return ""
    return "onednn" if uses_onednn() else "tensorflow"


def keep_nan() -> None:
    """Keeps oneDNN's kernels from making numbers of NaN, in graphs that this process runs from now on.

    Grappler fuses a product or a convolution with the `relu` behind it, and oneDNN's kernel of both takes 0 for the
    larger one of 0 and NaN: a loss that is NaN by TensorFlow's own kernels goes on as a number. Each by itself, the
    operations keep NaN. Call it once the strategy is made, which must be before TensorFlow begins to compute.
    """
    if replica_kernels() == "onednn":
        tf.config.optimizer.set_experimental_options({"remapping": False})


@dataclass(frozen=True)
class DeviceRequest:
    """The devices that a worker asks for.

    Attributes:
        gpus: Indices of the GPUs to use, of those that TensorFlow sees; all when None.
        logical: Into how many logical devices to split each GPU, or the CPU when there is no GPU; None: no split.
        memory_limit: MiB of GPU memory for each logical device (for the whole GPU without a split); None: no limit, or
            of a GPU that is split or shared equal parts of nearly all of its memory.
        memory_growth: Whether to take GPU memory as it is needed. Not together with a limit or a split.
        local_rank: This worker's place among the workers of its machine.
        local_size: How many workers its machine runs.
        own_gpus: Whether this worker sees only GPUs that no other one uses; else the GPUs are dealt to the workers.
        share_gpu: Whether workers of its machine share GPUs where there are fewer of these.
        emulated: GPUs that a machine without any is taken to have: workers compute on its CPUs as they would on those.
        worker_per_gpu: Whether there are several workers because there are as many GPUs.
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
    share_gpu: bool = False
    emulated: int | None = None
    worker_per_gpu: bool = False
    sharing: int | None = None

    def __post_init__(self) -> None:
        if self.logical is not None and self.logical < 1:
            raise UsageError(f"--logical-devices expects a number of at least 1. Received: {self.logical}")
        if self.memory_limit is not None and self.memory_limit < 1:
            raise UsageError(f"--memory-limit expects a number of MiB of at least 1. Received: {self.memory_limit}")


def deal(gpus: int, rank: int, size: int, *, shared: bool = False) -> range:
    """The indices, below `gpus`, of the GPUs of worker `rank` of a machine's `size` workers: all are used.

    No two workers have the same one, but where GPUs that are fewer than workers may be shared: then they are dealt in
    turn, one to each.

    Raises:
        UsageError: There are GPUs, but fewer than workers, and they are not to be shared.
    """
    if 0 < gpus < size:
        if not shared:
            raise UsageError(
                f"{size} workers on this machine need a GPU each. Received: {gpus} GPU(s). Start at most {gpus} "
                "worker(s) here, let workers share a GPU with --share-gpu, or split a GPU among replicas of one worker "
                "with --logical-devices."
            )
        return range(rank % gpus, rank % gpus + 1)
    return range(gpus * rank // size, gpus * (rank + 1) // size)


def workers_on_a_gpu(gpus: int, request: DeviceRequest) -> int:
    """Returns how many workers have a part of the same GPU, at most, of `gpus` that they are dealt."""
    if not request.share_gpu or request.own_gpus or not 0 < gpus < request.local_size:
        return 1
    return -(-request.local_size // gpus)


def share_of_cores(cores: int, size: int) -> int:
    """Returns how many of a machine's `cores` each of its `size` workers computes with; at least one."""
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
    seen = tf.config.list_physical_devices("GPU")
    if request.worker_per_gpu and not seen and request.emulated is None:
        raise UsageError(
            f"{request.local_size} workers were started, one for each GPU that CUDA's driver has here, and TensorFlow "
            "sees none of them: it is built without CUDA, or does not find its libraries. tfdist doctor says which. "
            "Install tensorflow[and-cuda], or train on the CPU with --nproc 1."
        )
    chosen = _choose(len(seen) or request.emulated or 0, request)
    mine = chosen if request.own_gpus else [chosen[i] for i in _dealt(len(chosen), request)]
    if request.local_size > 1:
        _share_cores(request.local_size if request.sharing is None else request.sharing)
    if seen and mine:
        gpus = [seen[i] for i in mine]
        _set_up_gpus(gpus, request, workers_on_a_gpu(len(chosen), request))
        parts = sum(_parts_set_up(gpu) for gpu in gpus)
        return [f"/device:GPU:{i}" for i in range(parts)]
    # A worker alone has all that it takes this machine to have; of several, TensorFlow uses one CPU device each.
    emulated = len(mine) if workers == 1 else 1
    return _set_up_cpus(emulated * (request.logical or 1) if emulated > 1 else request.logical, workers)


def _set_up_cpus(logical: int | None, workers: int) -> list[str]:
    if logical is None or logical == 1:
        parts = _parts_set_up(tf.config.list_physical_devices("CPU")[0]) if workers == 1 else 1
        return [f"/device:CPU:{i}" for i in range(parts)]
    if workers > 1:
        raise UsageError(
            f"--logical-devices splits the CPU for one worker alone: of several workers on the CPU, TensorFlow would "
            f"use one logical device each. Received: --logical-devices {logical} with {workers} workers. Leave "
            "out --logical-devices, or start one worker."
        )
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * logical)
    return [f"/device:CPU:{i}" for i in range(logical)]


def _choose(seen: int, request: DeviceRequest) -> Sequence[int]:
    """Returns which of the GPUs that TensorFlow sees the workers of this machine have."""
    if request.gpus is None:
        return range(seen)
    missing = [i for i in request.gpus if not 0 <= i < seen]
    if missing:
        raise UsageError(
            f"--devices names GPU {missing[0]}, and TensorFlow sees {seen} GPU(s) here. "
            + (f"Expected indices below {seen}. " if seen else "Expected none. ")
            + f"Received: --devices {','.join(map(str, request.gpus))}. "
            + ("Choose others." if seen else "Leave --devices out to train on the CPU.")
        )
    return request.gpus


def _dealt(chosen: int, request: DeviceRequest) -> range:
    return deal(chosen, request.local_rank, request.local_size, shared=request.share_gpu)


def _parts_set_up(device: tf.config.PhysicalDevice) -> int:
    """Returns how many logical devices it is set up as: here, or by a script before it asks for a strategy."""
    return len(tf.config.get_logical_device_configuration(device) or [device])


def _share_cores(size: int) -> None:
    cores = share_of_cores(len(os.sched_getaffinity(0)), size)
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    # One thread more than the computation needs: a collective must not wait for a core's thread to be free.
    tf.config.threading.set_inter_op_parallelism_threads(cores + 1)


def _set_up_gpus(gpus: Sequence[tf.config.PhysicalDevice], request: DeviceRequest, workers: int) -> None:
    """Sets up the GPUs of this worker; as many `workers` as are told have a part of each."""
    tf.config.set_visible_devices(list(gpus), "GPU")
    for gpu in gpus:
        parts = request.logical or 1
        if parts * workers > 1 or request.memory_limit is not None:
            # Workers that let memory grow would take it from one another.
            memory = request.memory_limit or _share(gpu, parts * workers)
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory)
            tf.config.set_logical_device_configuration(gpu, [limit] * parts)
        elif request.memory_growth and _parts_set_up(gpu) == 1:
            tf.config.experimental.set_memory_growth(gpu, True)


def _share(gpu: tf.config.PhysicalDevice, parts: int) -> int:
    """MiB of each of the parts of a GPU, of all workers that share it; TensorFlow splits none without a limit."""
    total = total_memory(int(gpu.name.rpartition(":")[2]))
    if total is None:
        raise UsageError(
            f"CUDA's driver does not tell how much memory {gpu.name} has. Expected --memory-limit MiB, the memory of "
            f"each logical device of each worker. Received: {parts} of them on this GPU without it."
        )
    return share(total, parts)
