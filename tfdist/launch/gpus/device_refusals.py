"""Devices that a job asks for and this machine does not have, as far as that is known before a worker starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfdist.errors import UsageError
from tfdist.launch.gpus.usable_gpus import GpuCount

if TYPE_CHECKING:
    from tfdist.launch.job_spec import JobSpec


def refuse_devices(spec: JobSpec, count: Callable[[], GpuCount]) -> None:
    """Refuses GPUs that are not here, and logical CPUs of several workers. A worker refuses what TensorFlow lacks.

    Args:
        spec: The job.
        count: Counts the GPUs of this machine; called only where the number matters.

    Raises:
        UsageError: The workers of this machine would refuse their devices.
    """
    workers = spec.membership.num_workers
    splits = spec.logical_devices not in (None, 1) and workers > 1
    if not spec.membership.local or not (spec.devices or splits):
        return
    found = count()
    if found.problem:
        return
    missing = [gpu for gpu in spec.devices or () if gpu >= found.count]
    if missing:
        given = ",".join(map(str, spec.devices or ()))
        raise UsageError(
            f"--devices names GPU {missing[0]}, and this machine has {found.count} GPU(s) that a worker may use. "
            + (f"Expected indices below {found.count}. " if found.count else "Expected none. ")
            + f"Received: --devices {given}. "
            + ("Choose others." if found.count else "Leave --devices out to train on the CPU.")
        )
    if splits and not found.count:
        raise UsageError(
            "--logical-devices splits the CPU for one worker alone: of several workers on the CPU, TensorFlow would "
            f"use one logical device each. Received: --logical-devices {spec.logical_devices} with {workers} workers. "
            "Leave out --logical-devices, or start one worker."
        )
