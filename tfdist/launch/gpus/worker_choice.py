"""Choice of how many workers a job of this machine alone has where nobody says: one for each GPU, or one process.

A process traces a step once a replica, one after another, and dispatches all of them from one thread: with eight
replicas it takes six times the processor time to its first step. So each GPU gets a worker of its own, as by torchrun,
unless something asks for one process.

Devices that a job asks for and this machine does not have, as far as that is known before a worker starts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.gpus.usable_gpus import GpuCount

if TYPE_CHECKING:
    from tfdist.launch.job_spec import JobSpec

ONE_PROCESS = "--nproc 1 runs one process on all of them"
_OWN_STRATEGY = re.compile(rb"(?<!MultiWorker)MirroredStrategy\s*\(")
_DEFAULT = Membership(None, (0,))
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class WorkerChoice:
    """The number of workers that a job has.

    Attributes:
        workers: The number.
        text: What is chosen and why, for the terminal; empty where there was nothing to choose.
    """

    workers: int
    text: str = ""

    def membership(self, given: Membership) -> Membership:
        """The cluster of so many workers of this machine; the one that was given where it has as many."""
        if self.workers == given.num_workers:
            return given
        return replace(discover(nproc=self.workers), source="one worker for each GPU")


def choose_workers(
    count: Callable[[], GpuCount],
    *,
    membership: Membership,
    devices: tuple[int, ...] | None = None,
    logical: int | None = None,
    script: str | None = None,
) -> WorkerChoice:
    """Chooses the number of workers where neither the command line nor the environment tells of a cluster.

    Args:
        count: Counts the GPUs of this machine; called only where the number matters.
        membership: As `discover` has found it; one that somebody has asked for stands.
        devices: `--devices`; None for all GPUs.
        logical: `--logical-devices`, or what a config says.
        script: Path of the script that is run; None for anything else.
    """
    if membership != _DEFAULT or (devices is not None and len(devices) < 2):
        return WorkerChoice(membership.num_workers)
    found = count()
    gpus = found.count if devices is None else len(devices)
    # What names a GPU that is not there is refused by the worker.
    if found.count < 2 or max(devices or (0,)) >= found.count:
        return WorkerChoice(1)
    why = _why_one_process(found, logical, script)
    if why:
        return WorkerChoice(1, f"one process on {gpus} GPUs, as {why}")
    return WorkerChoice(gpus, f"one worker on each of {gpus} GPUs; {ONE_PROCESS}")


def _why_one_process(found: GpuCount, logical: int | None, script: str | None) -> str:
    if logical is not None:
        return f"it is to split them into logical devices ({logical} each)"
    if found.problem:
        return f"it is not sure how many there are ({found.problem}); --nproc N starts N workers"
    if script is not None and _makes_mirrored_strategy(Path(script)):
        return "the script makes a MirroredStrategy, which is for one"
    return ""


def _makes_mirrored_strategy(script: Path) -> bool:
    try:
        with script.open("rb") as file:
            return _OWN_STRATEGY.search(file.read(_MOST_BYTES)) is not None
    except OSError:
        # A script that cannot be read is refused where it is to be run.
        return False


def with_chosen_workers(spec: JobSpec, count: Callable[[], GpuCount]) -> tuple[JobSpec, str]:
    """The job with as many workers as `choose_workers` has for it, and what the terminal is to say of that.

    Raises:
        UsageError: The job asks for devices that this machine does not have.
    """
    count = functools.cache(count)
    refuse_devices(spec, count)
    if spec.elastic is not None:
        return spec, ""
    choice = choose_workers(
        count,
        membership=spec.membership,
        devices=spec.devices,
        logical=spec.logical_devices,
        script=spec.target if spec.target_kind == "script" else None,
    )
    membership = choice.membership(spec.membership)
    if membership is spec.membership:
        return spec, choice.text
    return replace(spec, membership=membership, worker_per_gpu=True), choice.text


def refuse_devices(spec: JobSpec, count: Callable[[], GpuCount]) -> None:
    """Refuses GPUs that are not here, and logical CPUs of several workers. A worker refuses what TensorFlow lacks.

    Args:
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
