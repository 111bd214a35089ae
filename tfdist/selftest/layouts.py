"""Layouts: on which devices and workers the rows run, as far as this machine has them."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.launch.worker_options import Communication
from tfdist.runtime.nccl_version import lets_workers_share_a_gpu
from tfdist.text import format_count

_ON_A_SINGLE_DEVICE = 2
"""Parts into which the CPU, or the one GPU, is split, and the workers on it."""

_WITHOUT_TF32 = (
    "float32 is computed without TensorFloat-32, XLA's and cuBLAS's, in all that is compared; times are taken with it."
)


@dataclass(frozen=True)
class Layout:
    """The layout of a row: where it runs.

    Attributes:
        label: Its name in tables.
        workers: Processes.
        replicas: Replicas of all of them.
        gpus: The GPUs, by TensorFlow's index; None for the CPU.
        logical: Parts into which each GPU, or the CPU, is split; None for no split.
    """

    label: str
    workers: int
    replicas: int
    gpus: tuple[int, ...] | None = None
    logical: int | None = None

    @property
    def shares_gpus(self) -> bool:
        """True if there are fewer GPUs than workers."""
        return self.gpus is not None and self.workers > len(self.gpus)


@dataclass(frozen=True)
class Layouts:
    """All layouts of a selftest.

    Attributes:
        one: One device, with which the others are compared.
        others: All devices in one process, and several workers: one a device, or such that share the GPUs.
        notes: What a reader of the results must know of the layouts, a sentence each.
    """

    one: Layout
    others: tuple[Layout, ...]
    notes: tuple[str, ...] = ()


def layouts(
    seen: int, devices: tuple[int, ...] | None, logical: int | None, nproc: int | None, nccl: str | None = None
) -> Layouts:
    """The layouts of this machine.

    Args:
        seen: GPUs that TensorFlow sees.
        devices: The GPUs to use; None for all.
        logical: Parts into which each of them, or the CPU, is split; None for 2 where there is one device, else for
            no split.
        nproc: Workers; None for one on each GPU, and 2 on the CPU, or on the one GPU.
        nccl: The version of NCCL; None where it is not known.

    Raises:
        UsageError: A GPU is not there, or there is nothing to compare.
    """
    missing = [gpu for gpu in devices or () if gpu >= seen]
    if missing:
        raise UsageError(
            f"--devices names GPU {missing[0]}, and TensorFlow sees {seen} GPU(s) here. Expected numbers below {seen}, "
            f"or no --devices. Received: --devices {','.join(map(str, devices or ()))}"
        )
    gpus = tuple(range(seen)) if devices is None else devices
    if logical == 1 and len(gpus) < 2:
        raise UsageError(
            "One device is what several are compared with. Expected --logical-devices 2 or more, or several GPUs. "
            "Received: --logical-devices 1"
        )
    if not gpus:
        return Layouts(Layout("1 device", 1, 1), _on_cpu(logical or _ON_A_SINGLE_DEVICE, nproc or 2))
    parts = logical or (_ON_A_SINGLE_DEVICE if len(gpus) == 1 else 1)
    replicas = parts * len(gpus)
    together = Layout(_label(replicas, parts), 1, replicas, gpus, parts if parts > 1 else None)
    one = Layout("1 device", 1, 1, gpus[:1])
    workers = nproc or max(len(gpus), _ON_A_SINGLE_DEVICE)
    if workers <= len(gpus):
        several = Layout(format_count(workers, "worker"), workers, workers, gpus[:workers])
        return Layouts(one, (together, several), (_WITHOUT_TF32,))
    label = f"{format_count(workers, 'worker')} on {format_count(len(gpus), 'GPU')}"
    several = Layout(label, workers, workers, gpus)
    return Layouts(one, (together, several), (_WITHOUT_TF32, _sharing(label, nccl)))


def _sharing(label: str, nccl: str | None) -> str:
    version = f"NCCL {nccl}" if nccl else "NCCL of unknown version"
    how = f"over {version}" if lets_workers_share_a_gpu(nccl) else f"over the ring, as {version} does not on one GPU"
    return f"{label} (--share-gpu) exchange {how}, and take turns at computing: their times say nothing of more GPUs."


def check_collectives(found: Layouts, communication: Communication) -> None:
    """Raises UsageError where a layout does not have the collectives that were asked for."""
    without = next((layout for layout in found.others if layout.gpus is None or layout.logical), None)
    if communication == "nccl" and without is not None:
        raise UsageError(
            "--communication nccl needs a physical GPU for every replica. Expected --communication auto. Received: "
            f"--communication nccl, and {without.label}" + (" of the CPU" if without.gpus is None else " of a GPU")
        )


def _on_cpu(parts: int, workers: int) -> tuple[Layout, ...]:
    together = Layout(_label(parts, parts), 1, parts, logical=parts)
    return together, Layout(format_count(workers, "worker"), workers, workers)


def _label(replicas: int, parts: int) -> str:
    return format_count(replicas, "logical device" if parts > 1 else "device")
