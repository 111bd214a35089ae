"""The memory that a worker's devices have for a training, and which workers have it together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.plan.memory.host_memory import most_memory
from tfdist.plan.memory.state_check import SharedMemorySize
from tfdist.runtime.devices import DeviceRequest, workers_on_a_gpu
from tfdist.runtime.gpu_memory import total_memory

_MIB = 1 << 20


def memory_of(index: int, request: DeviceRequest, names: Sequence[str]) -> SharedMemorySize:
    """The memory in which a worker's replicas have what they train.

    Where it is not sure which memory that is, the larger one is told.

    Args:
        index: The worker's.
        request: The devices that it asked for.
        names: The devices of its replicas.
    """
    here = _of_host(index, request, copies=len(names))
    if names[0].startswith("/device:GPU"):
        if request.memory_limit is not None:
            limit = request.memory_limit * _MIB
            return SharedMemorySize(limit, "a device as --memory-limit has it", (index,), host=here)
        gpus = len(tf.config.list_physical_devices("GPU"))
        known = [total_memory(number) for number in range(gpus)]
        size = max((found for found in known if found is not None), default=None)
        sharing = workers_on_a_gpu(gpus if request.gpus is None else len(request.gpus), request)
        return SharedMemorySize(
            size, "a GPU of this host", (index,), copies=(request.logical or 1) * sharing, host=here
        )
    return here


def _of_host(index: int, request: DeviceRequest, copies: int) -> SharedMemorySize:
    first = index - request.local_rank
    # Workers that do not share their cores may be in control groups of their own.
    is_shared = request.sharing in (None, request.local_size) and first >= 0
    workers = tuple(range(first, first + request.local_size)) if is_shared else (index,)
    return SharedMemorySize(most_memory(), "this host, its limits and swap included,", workers, copies=copies)
