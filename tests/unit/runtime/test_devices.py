from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.launch.worker.kernel_choice import VARIABLE, choose_kernels, this_processor
from tfdist.runtime import devices
from tfdist.runtime.devices import (
    DeviceRequest,
    deal,
    replica_kernels,
    share,
    share_of_cores,
    total_memory,
    used_memory,
    uses_onednn,
)

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


def test_they_are_as_foretold() -> None:
    # An empty variable decides nothing, as none.
    environ = {VARIABLE: os.environ.get(VARIABLE, "")}
    expected = choose_kernels("auto", environ, this_processor(), has_gpu=False).kernels
    assert uses_onednn() == (expected == "onednn")
    assert replica_kernels() in (expected, "")


@pytest.mark.parametrize(
    ("gpus", "size", "dealt"),
    [
        (0, 1, [[]]),
        (0, 3, [[], [], []]),
        (1, 1, [[0]]),
        (2, 2, [[0], [1]]),
        (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (5, 2, [[0, 1], [2, 3, 4]]),
    ],
)
def test_gpus_are_dealt_once_each(gpus: int, size: int, dealt: list[list[int]]) -> None:
    assert [list(deal(gpus, rank, size)) for rank in range(size)] == dealt


def test_fewer_gpus_than_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 1 worker"):
        deal(1, 0, 2)


@pytest.mark.parametrize(
    ("gpus", "size", "dealt"),
    [
        (1, 3, [[0], [0], [0]]),
        (2, 4, [[0], [1], [0], [1]]),
        (2, 3, [[0], [1], [0]]),
        (4, 2, [[0, 1], [2, 3]]),  # enough for all
        (0, 2, [[], []]),
    ],
)
def test_gpus_are_shared_where_they_are_too_few(gpus: int, size: int, dealt: list[list[int]]) -> None:
    assert [list(deal(gpus, rank, size, shared=True)) for rank in range(size)] == dealt


@pytest.mark.parametrize(
    ("gpus", "size", "asked", "expected"),
    [
        (1, 2, {"share_gpu": True}, 2),
        (2, 3, {"share_gpu": True}, 2),
        (2, 2, {"share_gpu": True}, 1),
        (0, 2, {"share_gpu": True}, 1),
        (1, 2, {"share_gpu": True, "own_gpus": True}, 1),
        (1, 1, {}, 1),
    ],
)
def test_workers_on_a_gpu(gpus: int, size: int, asked: dict[str, bool], expected: int) -> None:
    assert devices.workers_on_a_gpu(gpus, DeviceRequest(local_size=size, **asked)) == expected


@pytest.mark.parametrize(("cores", "size", "share"), [(8, 1, 8), (8, 2, 4), (2, 2, 1), (2, 3, 1), (7, 2, 3)])
def test_cores_are_shared(cores: int, size: int, share: int) -> None:
    assert share_of_cores(cores, size) == share


@pytest.mark.parametrize(("sharing", "threads"), [(None, 2), (1, 8), (2, 4)])
def test_a_worker_that_keeps_to_its_cores_shares_them_with_fewer(
    sharing: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", given.append)
    monkeypatch.setattr(tf.config.threading, "set_inter_op_parallelism_threads", given.append)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    devices.apply(DeviceRequest(local_rank=1, local_size=4, sharing=sharing), workers=4)
    assert given == [threads, threads + 1]


@pytest.mark.parametrize("wrong", [{"logical": 0}, {"memory_limit": 0}])
def test_impossible_requests(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="Received: 0"):
        DeviceRequest(**wrong)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine with two GPUs of 16 GiB; what TensorFlow would be told of each."""
    told: dict[str, Any] = {"visible": []}
    configured: dict[str, list[tf.config.LogicalDeviceConfiguration]] = {}
    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{number}", "GPU") for number in range(2)]

    def split(gpu: tf.config.PhysicalDevice, parts: list[tf.config.LogicalDeviceConfiguration]) -> None:
        told[gpu.name[-5:]] = [part.memory_limit for part in parts]
        configured[gpu.name] = parts

    def grow(gpu: tf.config.PhysicalDevice, grows: bool) -> None:
        told[gpu.name[-5:]] = "grows"

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda those, kind: told.update(visible=those))
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", split)
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: configured.get(gpu.name))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", grow)
    monkeypatch.setattr(devices, "total_memory", lambda number: 16 * GIB)
    return told


@pytest.mark.parametrize(
    ("asked", "names", "told"),
    [
        (DeviceRequest(), ["GPU:0", "GPU:1"], {"GPU:0": "grows", "GPU:1": "grows"}),
        (DeviceRequest(gpus=(1,)), ["GPU:0"], {"GPU:1": "grows"}),
        (DeviceRequest(gpus=(0,), memory_growth=False), ["GPU:0"], {}),
        (DeviceRequest(gpus=(0,), memory_limit=500), ["GPU:0"], {"GPU:0": [500]}),
        (
            DeviceRequest(logical=2, memory_limit=500),
            [f"GPU:{i}" for i in range(4)],
            {"GPU:0": [500, 500], "GPU:1": [500, 500]},
        ),
        # TensorFlow refuses to split a GPU without a limit.
        (DeviceRequest(gpus=(0,), logical=2), ["GPU:0", "GPU:1"], {"GPU:0": [6963, 6963]}),
        (DeviceRequest(local_rank=1, local_size=2), ["GPU:0"], {"GPU:1": "grows"}),
        (DeviceRequest(gpus=(1,), local_rank=1, local_size=2, share_gpu=True), ["GPU:0"], {"GPU:1": [6963]}),
        (DeviceRequest(local_rank=2, local_size=3, share_gpu=True), ["GPU:0"], {"GPU:0": [6963]}),
        (DeviceRequest(local_rank=1, local_size=2, share_gpu=True), ["GPU:0"], {"GPU:1": "grows"}),
        (
            DeviceRequest(gpus=(0,), local_size=2, share_gpu=True, memory_limit=500),
            ["GPU:0"],
            {"GPU:0": [500]},
        ),
        # Its own, whichever numbers the other worker's have.
        (
            DeviceRequest(local_rank=1, local_size=2, own_gpus=True),
            ["GPU:0", "GPU:1"],
            {"GPU:0": "grows", "GPU:1": "grows"},
        ),
    ],
)
def test_what_tensorflow_is_told_of_gpus(
    asked: DeviceRequest,
    names: list[str],
    told: dict[str, Any],
    two_gpus: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "_share_cores", lambda size: None)
    assert devices.apply(asked, workers=asked.local_size) == [f"/device:{name}" for name in names]
    visible = [gpu.name[-5:] for gpu in two_gpus.pop("visible")]
    assert two_gpus == told
    assert set(told) <= set(visible)


def test_a_gpu_whose_memory_is_not_known_is_not_split_without_a_limit(
    two_gpus: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "total_memory", lambda number: None)
    with pytest.raises(UsageError, match="Expected --memory-limit MiB"):
        devices.apply(DeviceRequest(gpus=(0,), logical=2))


@pytest.mark.parametrize(("workers", "replicas"), [(1, 3), (2, 1)])
def test_a_script_may_have_split_the_cpu_itself(workers: int, replicas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * 3
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [cpu] if kind == "CPU" else [])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda device: parts)
    names = devices.apply(DeviceRequest(), workers=workers)
    assert names == [f"/device:CPU:{number}" for number in range(replicas)]


EMULATED = {"emulated": 2}


@pytest.mark.parametrize(
    ("asked", "workers", "names"),
    [
        (DeviceRequest(**EMULATED), 1, ["CPU:0", "CPU:1"]),
        (DeviceRequest(**EMULATED, logical=2), 1, ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]),
        (DeviceRequest(**EMULATED, gpus=(1,)), 1, ["CPU:0"]),
        (DeviceRequest(**EMULATED, local_rank=1, local_size=2), 2, ["CPU:0"]),
        (DeviceRequest(**EMULATED, gpus=(1,), local_rank=1, local_size=2, share_gpu=True), 2, ["CPU:0"]),
        (DeviceRequest(emulated=4, local_size=2), 2, ["CPU:0"]),  # of several workers each has one device on CPUs
        (DeviceRequest(emulated=0), 1, ["CPU:0"]),
    ],
)
def test_a_machine_without_gpus_is_taken_to_have_some(
    asked: DeviceRequest, workers: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [cpu] if kind == "CPU" else [])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda device: None)
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", lambda device, parts: None)
    monkeypatch.setattr(devices, "_share_cores", lambda size: None)
    assert devices.apply(asked, workers=workers) == [f"/device:{name}" for name in names]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (DeviceRequest(**EMULATED, local_size=3), "Received: 2 GPU.*let workers share a GPU with --share-gpu"),
        (DeviceRequest(**EMULATED, gpus=(2,)), "--devices names GPU 2, and TensorFlow sees 2"),
    ],
)
def test_what_emulated_gpus_do_not_allow(asked: DeviceRequest, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(UsageError, match=says):
        devices.apply(asked, workers=asked.local_size)


def test_workers_for_gpus_that_tensorflow_does_not_see_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has asked for several workers on the CPU."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    request = DeviceRequest(local_rank=1, local_size=8, worker_per_gpu=True)
    with pytest.raises(UsageError, match="8 workers were started, one for each GPU .* train on the CPU with --nproc 1"):
        devices.apply(request, workers=8)
