from __future__ import annotations

import ctypes
from typing import Any

import pytest
import tensorflow as tf

from tfdist.runtime.gpu_memory import share, total_memory, used_memory

GIB = 1 << 30


class Driver:
    """CUDA's driver of a machine with GPUs of 8 and 24 GiB."""

    sizes = (8 * GIB, 24 * GIB)

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def cuInit(self, flags: int) -> int:
        return self.code

    def cuDeviceGet(self, device: Any, number: int) -> int:
        ctypes.cast(device, ctypes.POINTER(ctypes.c_int))[0] = number
        return 0 if number < len(self.sizes) else 101

    def cuDeviceTotalMem_v2(self, size: Any, device: ctypes.c_int) -> int:
        if device.value >= len(self.sizes):
            return 101
        ctypes.cast(size, ctypes.POINTER(ctypes.c_size_t))[0] = self.sizes[device.value]
        return 0


def test_the_driver_tells() -> None:
    assert total_memory(1, lambda name: Driver()) == 24 * GIB


@pytest.mark.parametrize(("driver", "number"), [(Driver(100), 0), (Driver(), 2), (object(), 0)])
def test_a_driver_that_does_not(driver: object, number: int) -> None:
    assert total_memory(number, lambda name: driver) is None


def test_no_driver() -> None:
    assert total_memory(0, lambda name: ctypes.CDLL("libcuda-that-is-not-there.so")) is None


@pytest.mark.parametrize(("total", "parts", "each"), [(16 * GIB, 2, 6963), (16 * GIB, 1, 13926), (1, 8, 1)])
def test_parts_leave_something_for_cuda(total: int, parts: int, each: int) -> None:
    assert share(total, parts) == each


def test_the_fullest_gpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"GPU:0": 5, "GPU:1": 7}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"current": used[device], "peak": 9})
    assert used_memory(["/device:GPU:0", "/device:GPU:1"]) == 7


@pytest.mark.parametrize("device", ["/device:CPU:0", "/device:GPU:99"])
def test_a_cpu_and_a_gpu_that_does_not_tell_use_none(device: str) -> None:
    assert used_memory([device]) is None
