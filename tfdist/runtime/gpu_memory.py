"""Memory of GPUs: what is used, and all of it, which TensorFlow tells only of GPUs that it has taken; CUDA is asked."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

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
