"""Checks of the machine: cores, memory, shared memory, limits, GPUs, malloc."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.doctor.check_result import Check, ok, warn
from tfdist.doctor.machine.machine_facts import MachineFacts
from tfdist.doctor.machine.nvidia_smi import Gpu, NvidiaDriver
from tfdist.launch.worker import environment_defaults
from tfdist.text import format_bytes

_WORKER_MEMORY = 1 << 30
"""The memory, in bytes, that an empty TensorFlow worker takes, about, with some room for a small model."""
_NCCL_SHARED = 1 << 30
_FEW_FILES = 1024


def check_machine(machine: MachineFacts, nvidia: NvidiaDriver, workers: int, environ: Mapping[str, str]) -> list[Check]:
    """All checks of the machine.

    Args:
        machine: What it has.
        nvidia: Its GPUs.
        workers: How many workers a run would start here.
        environ: The variables that a worker would have.
    """
    return [
        check_cores(machine, workers),
        check_memory(machine, workers),
        check_shared_memory(machine, len(nvidia.gpus)),
        check_open_files(machine),
        check_malloc(environ),
        *check_gpus(nvidia),
    ]


def check_cores(machine: MachineFacts, workers: int) -> Check:
    """Returns whether every worker has a core of its own."""
    usable = machine.cores if machine.quota is None else min(machine.cores, machine.quota)
    found = f"{machine.cores} of {machine.all_cores}"
    if machine.quota is not None and machine.quota < machine.cores:
        found += f", limited to the time of {machine.quota:g} (control group)"
    if usable < workers:
        advice = "Start fewer workers here, or give this machine or container more cores."
        return warn("cores", f"{found} for {workers} worker(s): they take turns", advice)
    return ok("cores", found)


def check_memory(machine: MachineFacts, workers: int) -> Check:
    """Returns whether the workers would have room to start."""
    found = f"{_size(machine.free)} free of {_size(machine.memory)}"
    if machine.free is not None and machine.free < workers * _WORKER_MEMORY:
        needed = f"{workers} worker(s) take about {_size(workers * _WORKER_MEMORY)} before any data"
        return warn("memory", f"{found}: {needed}", "End other programs, or start fewer workers here.")
    return ok("memory", found)


def check_shared_memory(machine: MachineFacts, gpus: int) -> Check:
    """Returns whether NCCL has the shared memory that it takes between the GPUs of one machine."""
    name = "shared memory"
    found = "no /dev/shm" if machine.shared is None else f"/dev/shm of {_size(machine.shared)}"
    if gpus > 1 and (machine.shared or 0) < _NCCL_SHARED:
        advice = "In a container: docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir of medium Memory."
        return warn(name, f"{found}, through which NCCL joins the {gpus} GPUs: too small", advice)
    return ok(name, found if gpus > 1 else f"{found} (NCCL takes it between several GPUs)")


def check_open_files(machine: MachineFacts) -> Check:
    """Returns whether files and connections would run out."""
    if machine.open_files is None:
        return ok("open files", "no limit")
    found = f"at most {machine.open_files} a process"
    if machine.open_files < _FEW_FILES:
        most = "unlimited" if machine.most_open_files is None else str(machine.most_open_files)
        advice = f"ulimit -n {_FEW_FILES} (up to {most} without root), in the shell that starts tfdist."
        return warn("open files", f"{found}: many workers or data files need more", advice)
    return ok("open files", found)


def check_malloc(environ: Mapping[str, str]) -> Check:
    """Returns what the workers' malloc would be set to, and by whom."""
    own = {k: v for k, v in environ.items() if k.startswith("MALLOC_") or k == "LD_PRELOAD"}
    if own:
        listed = " ".join(f"{name}={value}" for name, value in own.items())
        return ok("malloc", f"as this environment sets it, tfdist adds nothing: {listed}")
    chosen = environment_defaults.allocator_settings(environ)
    if not chosen:
        return ok("malloc", "the system's; tfdist adds nothing where there is a GPU")
    listed = " ".join(f"{name}={value}" for name, value in chosen.items())
    return ok("malloc", f"tfdist gives its workers, which compute on the CPU, {listed}")


def check_gpus(nvidia: NvidiaDriver) -> list[Check]:
    """Returns what NVIDIA's driver tells of the GPUs."""
    if nvidia.problem:
        advice = "Install or repair NVIDIA's driver; in a container, pass the GPUs in (docker run --gpus all)."
        return [warn("GPU driver", f"{nvidia.problem}: a run would compute on the CPU", advice)]
    if not nvidia.gpus:
        return [ok("GPU driver", "none: no NVIDIA GPU here, a run computes on the CPU")]
    drivers = ", ".join(sorted({gpu.driver for gpu in nvidia.gpus}))
    return [ok("GPU driver", f"NVIDIA {drivers}"), *map(_check_gpu, nvidia.gpus)]


def _check_gpu(gpu: Gpu) -> Check:
    name = f"GPU {gpu.index}"
    found = f"{gpu.name}, compute capability {gpu.capability}, {_size(gpu.free)} free of {_size(gpu.memory)}"
    if gpu.memory and gpu.free is not None and gpu.free < gpu.memory / 2:
        return warn(name, f"{found}: another program uses it", "nvidia-smi shows which. End it, or choose --devices.")
    return ok(name, found)


def _size(count: int | None) -> str:
    return "unknown" if count is None else format_bytes(count, binary=True)
