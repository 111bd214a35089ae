"""Number of the GPUs that workers of this machine will find, without TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.bounded_process import run
from tfdist.launch.gpus import cuda_device_count
from tfdist.launch.worker.kernel_choice import hides_gpus

# Isolated, and without packages of the environment: the program needs none, and starts in 20 ms so.
COMMAND = (sys.executable, "-I", "-S", str(cuda_device_count.__file__))
MOST_SECONDS = 20.0
"""A driver that nothing keeps loaded takes a second or two a GPU."""
_DEVICES = Path("/dev")


@dataclass(frozen=True)
class GpuCount:
    """The number of GPUs that the workers of this machine will find.

    Attributes:
        count: The number; where it is not known for sure, that of the driver's device files.
        problem: Why it is not known for sure; empty where it is.
    """

    count: int
    problem: str = ""


def count_gpus(
    environ: Mapping[str, str],
    command: Sequence[str] = COMMAND,
    devices: Path = _DEVICES,
    seconds: float = MOST_SECONDS,
) -> GpuCount:
    """Counts the GPUs. CUDA's driver is asked only where there may be several: it takes a second or more.

    Args:
        environ: The environment that workers would have.
        command: The program that asks the driver.
        devices: Where the device files are.
        seconds: How long it may take.
    """
    files = sum(entry.name.removeprefix("nvidia").isdigit() for entry in devices.glob("nvidia[0-9]*"))
    # Under WSL GPUs have no device files of their own.
    if hides_gpus(environ) or (files < 2 and not (devices / "dxg").exists()):
        return GpuCount(0 if hides_gpus(environ) else files)
    try:
        done = run(command, seconds, environ=environ)
    except OSError as error:
        return GpuCount(files, f"CUDA's driver cannot be asked: {error}")
    if done.code is None:
        return GpuCount(files, f"CUDA's driver did not answer within {seconds:g} s")
    if done.code or not done.out.strip().isdigit():
        return GpuCount(files, (done.err.strip().splitlines() or ["CUDA's driver said nothing"])[-1])
    return GpuCount(int(done.out))
