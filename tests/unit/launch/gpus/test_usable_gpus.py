from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist.launch.environment import count_gpus_here
from tfdist.launch.gpus import cuda_device_count
from tfdist.launch.gpus.usable_gpus import COMMAND, GpuCount, count_gpus

NO_COMMAND = ("/does/not/exist",)


def says(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


@pytest.fixture
def devices(tmp_path: Path) -> Callable[..., Path]:
    def make(*names: str) -> Path:
        for name in names:
            (tmp_path / name).touch()
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("names", "environ", "count"),
    [
        ([], {}, 0),
        (["nvidiactl", "nvidia-uvm", "nvidia0"], {}, 1),
        (["nvidia0", "nvidia1"], {"CUDA_VISIBLE_DEVICES": ""}, 0),
        (["nvidia0", "nvidia1"], {"CUDA_VISIBLE_DEVICES": "-1"}, 0),
    ],
)
def test_the_driver_is_not_asked_where_there_cannot_be_several(
    names: list[str], environ: dict[str, str], count: int, devices: Callable[..., Path]
) -> None:
    assert count_gpus(environ, NO_COMMAND, devices(*names)) == GpuCount(count)


@pytest.mark.parametrize("names", [["nvidia0", "nvidia1", "nvidiactl"], ["dxg"]])
def test_the_driver_is_asked_as_workers_would(names: list[str], devices: Callable[..., Path]) -> None:
    command = says("import os; print(os.environ['CUDA_VISIBLE_DEVICES'].count(',') + 1)")
    assert count_gpus({"CUDA_VISIBLE_DEVICES": "0,2,3"}, command, devices(*names)) == GpuCount(3)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (NO_COMMAND, "CUDA's driver cannot be asked: "),
        (says("import time; time.sleep(60)"), "CUDA's driver did not answer within 0.5 s"),
        (says("import sys; sys.exit('error 999')"), "error 999"),
        (says("print('two')"), "CUDA's driver said nothing"),
    ],
)
def test_a_driver_that_does_not_tell(command: tuple[str, ...], problem: str, devices: Callable[..., Path]) -> None:
    found = count_gpus({}, command, devices("nvidia0", "nvidia1"), seconds=0.5 if "sleep" in command[-1] else 20)
    assert found.count == 2
    assert found.problem.startswith(problem)


def test_emulated_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_gpus_here({"TFDIST_EMULATE_GPUS": "nccl,count=5"}) == GpuCount(5)


class Driver:
    """Stands in for CUDA's driver, which answers with `code` and has `gpus` GPUs."""

    def __init__(self, gpus: int, init: int = 0, code: int = 0) -> None:
        self._gpus, self._init, self._code = gpus, init, code

    def cuInit(self, flags: int) -> int:
        return self._init

    def cuDeviceGetCount(self, found: Any) -> int:
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int))[0] = self._gpus
        return self._code


def test_what_the_driver_answers() -> None:
    assert cuda_device_count.count(lambda name: Driver(8)) == 8
    assert cuda_device_count.count(lambda name: Driver(8, init=100)) == 0
    for broken in (Driver(8, init=999), Driver(8, code=999)):
        with pytest.raises(OSError, match="error 999"):
            cuda_device_count.count(lambda name, broken=broken: broken)


def test_the_program_says_why_it_cannot_tell() -> None:
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=60, env={"LD_LIBRARY_PATH": ""}, check=False
    )
    if done.returncode == 0:  # a machine with a driver
        assert done.stdout.strip().isdigit()
    else:
        assert "libcuda.so.1" in done.stderr
