"""Checks of the machine, its environment, TensorFlow and what a run here would use, from facts: they ask nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import Check, fail, ok, warn
from tfdist.doctor.machine.machine_facts import Gpu, MachineFacts, NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts
from tfdist.errors import ClusterError
from tfdist.launch.worker import worker_variables
from tfdist.launch.worker.worker_variables import objections
from tfdist.runtime.tested_versions import TENSORFLOW
from tfdist.text import format_bytes, format_count

_WORKER_MEMORY = 1 << 30
"""The memory, in bytes, that an empty TensorFlow worker takes, about, with some room for a small model."""

_NCCL_SHARED = 1 << 30
_FEW_FILES = 1024
_SHOWN = 200
_STRATEGIES = {
    "one": "no strategy",
    "mirrored": "MirroredStrategy",
    "multi_worker": "MultiWorkerMirroredStrategy",
}
_COLLECTIVES = {
    "nccl": " over NCCL",
    "ring": " over ring collectives",
    "copy": " with copies within the process",
    "none": "",
}
_GPU_PACKAGES = f"pip install 'tensorflow[and-cuda]{str(TENSORFLOW).removeprefix(TENSORFLOW.package)}'"


def check_machine(machine: MachineFacts, nvidia: NvidiaDriver, workers: int, environ: Mapping[str, str]) -> list[Check]:
    """All checks of the machine.

    Args:
        workers: How many workers a run would start here.
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
    chosen = worker_variables.allocator_settings(environ)
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


def check_cluster(found: Membership | ClusterError) -> Check:
    """The cluster that `tfdist train` would form with the same options."""
    if isinstance(found, ClusterError):
        return fail("cluster", str(found), "Correct it, or say it with --workers LIST.", found.exit_code)
    if found.cluster is None:
        return ok("cluster", found.source)
    here = ", ".join(map(str, found.local))
    return ok("cluster", f"{found.num_workers} workers, from {found.source}; worker(s) {here} here: {found.cluster}")


def check_variables(environ: Mapping[str, str]) -> list[Check]:
    """Reports the variables that affect a run, and those whose values would break it.

    Args:
        environ: Of `tfdist.cluster.environment_variables.run_variables`.
    """
    checks = [ok("environment", _listed(environ) if environ else "no variable that decides anything about a run")]
    checks += [fail(name, text, f"unset {variable}") for name, variable, text in objections(environ)]
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        text = f"CUDA_VISIBLE_DEVICES={environ['CUDA_VISIBLE_DEVICES']!r} hides every GPU"
        checks.append(warn("hidden GPUs", text, "unset CUDA_VISIBLE_DEVICES, unless that is meant"))
    return checks


def _listed(environ: Mapping[str, str]) -> str:
    return "\n".join(
        f"{name}={value if len(value) <= _SHOWN else value[:_SHOWN] + '...'}" for name, value in environ.items()
    )


def check_tensorflow(found: TensorFlowFacts | BrokenTensorFlow, nvidia: NvidiaDriver) -> list[Check]:
    """Judges what the probe found."""
    if isinstance(found, BrokenTensorFlow):
        return [_broken(found)]
    checks = [_imported(found), *_gpus(found, nvidia)]
    return [*checks, _nccl(found), *_capabilities(found)] if found.gpus else checks


def _broken(found: BrokenTensorFlow) -> Check:
    said = "\n".join(found.output)
    if found.hung:
        advice = "On a busy machine or a slow disk, give it more with --timeout. Else see above where it waits."
    else:
        advice = f"Repair the installation, best in a new environment: pip install '{TENSORFLOW}' tfdist."
    return fail("TensorFlow", f"a process that uses it {found.what}" + (f"\n{said}" if said else ""), advice)


def _imported(found: TensorFlowFacts) -> Check:
    build = f", built for CUDA {found.cuda} and cuDNN {found.cudnn}" if found.cuda else ", built without CUDA"
    text = f"imports: {found.tensorflow}{build}; Keras {found.keras} on {found.backend}; NumPy {found.numpy}"
    if found.backend != "tensorflow":
        advice = "unset KERAS_BACKEND, or set the backend in ~/.keras/keras.json to tensorflow."
        return fail("TensorFlow", f"{text}: tfdist trains on Keras's tensorflow backend", advice)
    return ok("TensorFlow", text)


def _gpus(found: TensorFlowFacts, nvidia: NvidiaDriver) -> list[Check]:
    name = "GPUs in TensorFlow"
    seen, there = len(found.gpus), len(nvidia.gpus)
    if seen < there and not seen:
        advice = f"Install CUDA's libraries ({_GPU_PACKAGES}), or correct CUDA_VISIBLE_DEVICES."
        return [warn(name, f"0 of the {there} that the driver has: a run would compute on the CPU", advice)]
    if seen < there:
        advice = "Unset CUDA_VISIBLE_DEVICES to use all of them."
        return [warn(name, f"{seen} of the {there} that the driver has", advice)]
    if not seen:
        return []
    kinds = Counter(f"{gpu['name']} (compute capability {gpu['capability']})" for gpu in found.gpus)
    said = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    if len(kinds) > 1:
        advice = "Each step waits for the slowest: choose GPUs of one kind with --devices."
        return [warn(name, f"of different kinds: {said}", advice)]
    return [ok(name, said)]


def _nccl(found: TensorFlowFacts) -> Check:
    if found.nccl is not None:
        return ok("NCCL", found.nccl)
    return ok("NCCL", "no library of its own is found: what TensorFlow has built in")


def _capabilities(found: TensorFlowFacts) -> list[Check]:
    least = min((int(n) for text in found.capabilities for n in re.findall(r"\d+", text)), default=0)
    old = [gpu for gpu in found.gpus if _number(gpu["capability"]) < least]
    if not old:
        return []
    advice = "Choose other GPUs with --devices, or build TensorFlow for them."
    said = ", ".join(f"{gpu['name']} ({gpu['capability']})" for gpu in old)
    return [fail("compute capability", f"{said}: this TensorFlow has code from {least / 10:g} on", advice)]


def _number(capability: str) -> int:
    """80 of `8.0`, as TensorFlow's build writes it; a capability that is not known is high enough."""
    digits = re.findall(r"\d+", capability)
    return int(digits[0]) * 10 + int(digits[1]) if len(digits) == 2 else 1 << 30


def check_run(found: TensorFlowFacts | BrokenTensorFlow, membership: Membership | None) -> list[Check]:
    """Returns what a run here would use; nothing where TensorFlow is broken, which another check reports.

    Args:
        membership: The cluster of a run; None when it is not known.
    """
    name = "a run here"
    if isinstance(found, BrokenTensorFlow):
        return []
    if found.refused or found.choice is None:
        return [fail(name, f"would not start: {found.refused}", "Change what the message names.")]
    if membership is None:
        return [warn(name, "cannot be foretold: who would take part is not known", "Correct the cluster, see above.")]
    kind, communication, reason = (found.choice[key] for key in ("kind", "communication", "reason"))
    replicas = _replicas(found.devices, membership)
    return [ok(name, f"{_STRATEGIES[kind]}{_COLLECTIVES[communication]} ({reason}); {replicas}")]


def _replicas(devices: tuple[str, ...], membership: Membership) -> str:
    workers = membership.num_workers
    count = len(devices) * workers
    said = format_count(count, "replica")
    names = ", ".join(device.removeprefix("/device:") for device in devices)
    if workers == 1:
        return f"{said} on {names}"
    return f"{said} if all {workers} workers are as worker {membership.local[0]}, which has {names}"
