"""GPUs and driver as nvidia-smi reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.bounded_process import run

_FIELDS = ("index", "name", "driver_version", "memory.total", "memory.free", "compute_cap")
COMMAND = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
_DEVICE = Path("/dev/nvidiactl")
MOST_SECONDS = 10.0
"""A healthy driver answers sooner, even with many GPUs."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine.

    Attributes:
        index: NVIDIA's number.
        name: The model.
        driver: The driver's version.
        memory: Bytes; None when it cannot be told.
        free: Bytes not in use; None when it cannot be told.
        capability: Compute capability, such as `8.0`.
    """

    index: int
    name: str
    driver: str
    memory: int | None
    free: int | None
    capability: str


@dataclass(frozen=True)
class NvidiaDriver:
    """The report of NVIDIA's driver.

    Attributes:
        gpus: The GPUs.
        problem: Why they are not known; empty when they are.
    """

    gpus: tuple[Gpu, ...] = ()
    problem: str = ""


def ask(command: Sequence[str] = COMMAND, device: Path = _DEVICE, seconds: float = MOST_SECONDS) -> NvidiaDriver:
    """Asks nvidia-smi, which comes with the driver.

    Args:
        command: What to run.
        device: The driver's device file: without it and without nvidia-smi there is no GPU.
        seconds: How long it may take.
    """
    try:
        done = run(command, seconds)
    except FileNotFoundError:
        return NvidiaDriver(problem=f"{device} is there, but nvidia-smi is not" if device.exists() else "")
    except OSError as error:
        return NvidiaDriver(problem=f"nvidia-smi cannot be run: {error}")
    if done.code is None:
        return NvidiaDriver(problem=f"nvidia-smi did not end within {seconds:g} s")
    if done.code:
        said = (done.err + done.out).strip().splitlines()
        return NvidiaDriver(problem=f"nvidia-smi failed with {done.code}: {said[0] if said else 'it said nothing'}")
    try:
        return NvidiaDriver(parse(done.out))
    except ValueError as error:
        return NvidiaDriver(problem=f"nvidia-smi was not understood: {error}")


def parse(text: str) -> tuple[Gpu, ...]:
    """Reads nvidia-smi's lines.

    Raises:
        ValueError: A line is not what was asked for.
    """
    gpus = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_FIELDS) or not cells[0].isdigit():
            raise ValueError(f"expected {', '.join(_FIELDS)}, received {line!r}")
        index, name, driver, memory, free, capability = cells
        gpus.append(Gpu(int(index), name, driver, _bytes(memory), _bytes(free), capability))
    return tuple(gpus)


def _bytes(mebibytes: str) -> int | None:
    # Some GPUs that share the host's memory answer [N/A].
    return int(mebibytes) * _MIB if mebibytes.isdigit() else None
