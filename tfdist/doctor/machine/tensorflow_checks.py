"""Checks of TensorFlow, and of what a run here would use."""

from __future__ import annotations

import re
from collections import Counter

from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import Check, fail, ok, warn
from tfdist.doctor.machine.nvidia_smi import NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts
from tfdist.runtime.tested_versions import TENSORFLOW
from tfdist.text import format_count

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


def check_tensorflow(found: TensorFlowFacts | BrokenTensorFlow, nvidia: NvidiaDriver) -> list[Check]:
    """Judges what the probe found.

    Args:
        found: The facts.
        nvidia: What the driver reports.
    """
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
        found: The facts.
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
