from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.runtime.devices import DeviceRequest
from tfdist.training.probes.recorder import devices_for, impose_settings


@pytest.mark.parametrize(
    ("asked", "replicas", "workers", "seen", "gpus", "logical"),
    [
        (None, 1, 1, 0, None, None),  # the CPU
        (None, 3, 1, 0, None, 3),
        (None, 2, 2, 0, None, None),  # two workers on the CPU have a replica each
        (None, 1, 1, 4, (0,), None),
        (None, 2, 1, 4, (0, 1), None),
        (None, 2, 2, 4, (0, 1), None),  # dealt out later, one to each
        (None, 3, 1, 2, (0,), 3),  # too few GPUs: one of them, split
        (None, 4, 1, 2, (0, 1), 2),  # or all, where that is even
        ((2, 3), 1, 1, 4, (2,), None),
        ((2, 3), 2, 1, 4, (2, 3), None),
        ((2,), 2, 1, 4, (2,), 2),
    ],
)
def test_devices(
    asked: tuple[int, ...] | None,
    replicas: int,
    workers: int,
    seen: int,
    gpus: tuple[int, ...] | None,
    logical: int | None,
) -> None:
    # A split that a config asks for would make several replicas of the reference.
    received = devices_for(DeviceRequest(gpus=asked, logical=5, memory_limit=100), replicas, workers, seen)
    assert received == DeviceRequest(gpus=gpus, logical=logical, memory_limit=100)


def test_workers_need_a_gpu_each() -> None:
    with pytest.raises(UsageError, match="3 workers need a GPU each. Received: 2"):
        devices_for(DeviceRequest(), 3, 3, 2)


def test_workers_may_share_gpus() -> None:
    request = DeviceRequest(gpus=(1,), logical=2, share_gpu=True)
    assert devices_for(request, 3, 3, 2) == DeviceRequest(gpus=(1,), share_gpu=True)


@pytest.fixture(autouse=True)
def _tensor_float_32() -> Iterator[None]:
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


def test_float32_is_computed_in_full() -> None:
    tf.config.experimental.enable_tensor_float_32_execution(True)
    impose_settings(RecordingRequest("/r", 1))
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_precision_as_asked_whatever_the_script_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (keras.config, "set_dtype_policy"),
        (keras.mixed_precision, "set_dtype_policy"),
        (keras.mixed_precision, "set_global_policy"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    before, restore = keras.config.dtype_policy(), keras.config.set_dtype_policy
    try:
        impose_settings(RecordingRequest("/r", 1, precision="mixed_bfloat16"))
        keras.mixed_precision.set_global_policy("float64")
        keras.config.set_dtype_policy("float64")
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        restore(before)
