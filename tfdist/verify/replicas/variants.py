"""Variants of a run that a verification compares: by its options, and as this machine and this model have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tfdist.errors import UsageError
from tfdist.launch.worker_options import Communication, Compression
from tfdist.verify.replicas.likely_causes import Versus
from tfdist.verify.runs import TargetSpec

Also = Literal["xla", "communication", "precision"]


_OF_SEVERAL_WORKERS = {
    "shard": ("cuts what several workers hold", "none"),
    "shard_embeddings": ("gives each of several workers some rows", None),
    "tensor": ("cuts weights between workers", 1),
    "context": ("cuts sequences between workers", 1),
}
"""Option -> what it does, and its value where it does nothing."""


@dataclass(frozen=True)
class VerifySpec(TargetSpec):
    """Options of `tfdist verify`.

    Attributes:
        replicas: Replicas of the run in one process; 1 for no such run.
        nproc: Workers of the run in several processes; None for no such run.
        steps: Training steps.
        tolerance: The relative difference that passes; None to measure the effect of rounding.
        also: Further comparisons.
    """

    replicas: int = 2
    nproc: int | None = None
    steps: int = 5
    tolerance: float | None = None
    also: tuple[Also, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nproc == 1:
            raise UsageError(
                "One worker is what the others are compared with. Expected --nproc 2 or more. Received: --nproc 1"
            )
        if self.replicas == 1 and self.nproc is None and not self.also:
            raise UsageError(
                "There is nothing to compare one replica with. Expected --replicas 2 or more, --nproc N or --also "
                f"{'|'.join(get_args(Also))}. Received: --replicas 1"
            )
        for option, (what, unset) in _OF_SEVERAL_WORKERS.items():
            value = getattr(self, option)
            if value != unset and self.nproc is None:
                flag = f"--{option.replace('_', '-')}"
                raise UsageError(
                    f"{flag} {what}, and there is one worker. Expected --nproc N, too. Received: {flag} {value} "
                    "without --nproc"
                )
        if self.offload != "none" and self.nproc is None:
            raise UsageError(
                "--offload is compared on several workers with one device that offloads nothing. Expected --nproc N, "
                f"too, or --offload none. Received: --offload {self.offload} without --nproc"
            )
        if self.compression != "none" and self.nproc is None and "communication" not in self.also:
            raise UsageError(
                "--compression is of the gradients that workers send, and there is one worker. Expected --nproc N, "
                f"too. Received: --compression {self.compression} without --nproc"
            )


@dataclass(frozen=True)
class Variant:
    """One run, and the run it is compared with.

    Attributes:
        label: Its name in the report.
        versus: How it differs from that run.
        workers: Its processes.
        replicas: Replicas of all its processes.
        communication: Its collectives.
        compression: The type in which its workers send gradients; "none" for their own.
        jit_compile: Whether models are compiled with XLA; None for the target's choice.
        precision: The dtype policy; None for the target's choice.
        perturbed: Whether the weights are moved by a rounding error.
        reference: The label of the run that it is compared with.
    """

    label: str
    versus: Versus
    workers: int = 1
    replicas: int = 1
    communication: Communication = "auto"
    compression: Compression = "none"
    jit_compile: bool | None = None
    precision: str | None = None
    perturbed: bool = False
    reference: str = "1 replica"


@dataclass(frozen=True)
class Unavailable:
    """A comparison that cannot be made.

    Attributes:
        label: The label that its run would have.
        reason: Why it cannot be made.
    """

    label: str
    reason: str


REFERENCE = Variant("1 replica", "again")
AGAIN = Variant("1 replica again", "again", perturbed=True)


def variants(spec: VerifySpec, gpus: int, *, jit_compile: bool, half: bool) -> list[Variant | Unavailable]:
    """The runs to compare, given what the reference run has found out about this machine and this model.

    Args:
        gpus: GPUs that TensorFlow sees here.
        jit_compile: Whether the target compiles with XLA.
        half: Whether it computes in 16 bits.
    """
    chosen = gpus if spec.devices is None else len(spec.devices)
    found: list[Variant | Unavailable] = []
    if spec.replicas > 1:
        label = f"{spec.replicas} replicas"
        found.append(Variant(label, "replicas", replicas=spec.replicas, communication=spec.communication))
    if spec.nproc is not None:
        found.append(_workers(spec, spec.nproc, chosen))
    if "xla" in spec.also:
        label = f"XLA {'off' if jit_compile else 'on'}"
        found.append(Variant(label, "xla", jit_compile=not jit_compile))
    if "communication" in spec.also:
        found += _communication(spec, max(spec.nproc or 2, 2), chosen)
    if "precision" in spec.also:
        found.append(
            Variant("float32", "precision", precision="float32")
            if half
            else Unavailable("float32", "the target computes in float32 already, so there is nothing to compare.")
        )
    return found


def _workers(spec: VerifySpec, workers: int, gpus: int) -> Variant | Unavailable:
    label = _compressed(f"{workers} workers", spec)
    if 0 < gpus < workers and not spec.share_gpu:
        return Unavailable(label, f"each worker needs a GPU, and there are {gpus}; --share-gpu lets them share.")
    return Variant(label, "replicas", workers, workers, spec.communication, spec.compression)


def _compressed(label: str, spec: VerifySpec) -> str:
    return label if spec.compression == "none" else f"{label}, {spec.compression}"


def _communication(spec: VerifySpec, workers: int, gpus: int) -> list[Variant | Unavailable]:
    if gpus < (1 if spec.share_gpu else workers):
        reason = f"NCCL needs a physical GPU for every replica, so {workers}; TensorFlow sees {gpus} here."
        return [Unavailable("NCCL against RING", reason)]
    ring, nccl = (_compressed(f"{workers} workers, {name}", spec) for name in ("RING", "NCCL"))
    return [
        Variant(ring, "replicas", workers, workers, "ring", spec.compression),
        Variant(nccl, "communication", workers, workers, "nccl", spec.compression, reference=ring),
    ]
