"""Number of the GPUs that workers of this machine will find, without TensorFlow; and GPUs that are emulated on CPUs.

`TFDIST_EMULATE_GPUS=nccl,xla,count=4 tfdist train ...` has workers exchange by every path of NCCL, over TensorFlow's
ring; `compile(jit_compile="auto")` compile with XLA as it does on a GPU; and the launcher find four GPUs on this
machine. It is for tests: results are those of GPUs but for rounding, and nothing gets faster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.bounded_process import run
from tfdist.errors import UsageError
from tfdist.launch.gpus import cuda_device_count
from tfdist.launch.worker.kernel_choice import hides_gpus

# Isolated, and without packages of the environment: the program needs none, and starts in 20 ms so.
COMMAND = (sys.executable, "-I", "-S", str(cuda_device_count.__file__))
MOST_SECONDS = 20.0
"""A driver that nothing keeps loaded takes a second or two a GPU."""

_DEVICES = Path("/dev")
EMULATION_VARIABLE = "TFDIST_EMULATE_GPUS"


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
        command: The program that asks the driver.
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


@dataclass(frozen=True)
class GpuEmulation:
    """The features of GPUs that are emulated on CPUs.

    Attributes:
        nccl: Whether workers exchange by the paths of NCCL, over TensorFlow's ring.
        xla: Whether `jit_compile="auto"` is what it is on one GPU.
        count: How many GPUs the launcher finds on this machine; None for those that there are.
    """

    nccl: bool = False
    xla: bool = False
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> GpuEmulation:
        """Reads the value of the variable; an empty one emulates nothing.

        Raises:
            UsageError: It names something else.
        """
        fields: dict[str, bool | int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name == "count" and value.isdecimal():
                fields["count"] = int(value)
            elif part in ("nccl", "xla"):
                fields[part] = True
            else:
                raise UsageError(
                    f"{EMULATION_VARIABLE} expects some of nccl, xla and count=N, with commas between them, such as "
                    f"nccl,xla,count=4. Received: {text!r}"
                )
        return cls(**fields)  # type: ignore[arg-type]
