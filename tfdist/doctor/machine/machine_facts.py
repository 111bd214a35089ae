"""Facts about this machine: processor, cores, memory, limits; GPUs and driver as nvidia-smi reports them."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.bounded_process import run
from tfdist.plan.memory.host_memory import meminfo, read_text

_CGROUP = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")
_MEMINFO = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")
_VECTOR_FLAGS = ("avx2", "avx512", "amx", "sve", "asimd")
"""The beginnings of names of processor flags that decide how fast TensorFlow computes, and by which kernels."""
_FIELDS = ("index", "name", "driver_version", "memory.total", "memory.free", "compute_cap")
COMMAND = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
_DEVICE = Path("/dev/nvidiactl")
MOST_SECONDS = 10.0
"""A healthy driver answers sooner, even with many GPUs."""
_MIB = 1 << 20


@dataclass(frozen=True)
class MachineFacts:
    """One machine as this process may use it.

    Attributes:
        host: Its name.
        cores: Cores that this process may run on.
        all_cores: Cores of the machine.
        quota: Cores' worth of time that its control group may take; None without a limit.
        memory: Bytes, the machine's or its control group's limit; None when it cannot be told.
        free: Bytes that a new process could have; None when it cannot be told.
        shared: Bytes of /dev/shm; None when there is none.
        open_files: The soft limit; None without one.
        most_open_files: The hard limit; None without one.
        processor: Its model; empty when it cannot be told.
        vector_flags: Its flags for computing with vectors and matrices, such as `avx2`.
    """

    host: str
    cores: int
    all_cores: int
    quota: float | None
    memory: int | None
    free: int | None
    shared: int | None
    open_files: int | None
    most_open_files: int | None
    processor: str = ""
    vector_flags: tuple[str, ...] = ()


def this_machine() -> MachineFacts:
    """Reads the facts from the system."""
    memory, free = _memory()
    soft, hard = (None if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
    return MachineFacts(
        socket.gethostname(),
        len(os.sched_getaffinity(0)),
        os.cpu_count() or 1,
        quota(read_text(_CGROUP / "cpu.max")),
        memory,
        free,
        _shared_memory(),
        soft,
        hard,
        *processor(read_text(_CPUINFO)),
    )


def processor(text: str) -> tuple[str, tuple[str, ...]]:
    """Model and vector flags of the first processor, of the text of /proc/cpuinfo."""
    rows = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    found = {name.strip().lower(): value.strip() for name, _, value in rows}
    flags = found.get("flags", found.get("features", "")).split()
    return found.get("model name", ""), tuple(sorted(flag for flag in flags if flag.startswith(_VECTOR_FLAGS)))


def quota(text: str) -> float | None:
    """Cores' worth of time, of the text of a control group's cpu.max; None for no limit."""
    fields = text.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    return int(fields[0]) / int(fields[1])


def _memory() -> tuple[int | None, int | None]:
    found = meminfo(read_text(_MEMINFO))
    total, free = found.get("MemTotal"), found.get("MemAvailable")
    limit, used = read_text(_CGROUP / "memory.max").strip(), read_text(_CGROUP / "memory.current").strip()
    if limit.isdigit() and used.isdigit() and (total is None or int(limit) < total):
        left = max(0, int(limit) - int(used))
        return int(limit), left if free is None else min(left, free)
    return total, free


def _shared_memory() -> int | None:
    try:
        system = os.statvfs(_SHARED)
    except OSError:
        return None
    return system.f_blocks * system.f_frsize


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
        device: The driver's device file: without it and without nvidia-smi there is no GPU.
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
