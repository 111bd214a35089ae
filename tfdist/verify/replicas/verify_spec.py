"""Options of `tfdist verify`, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tfdist.errors import UsageError
from tfdist.verify.target_spec import TargetSpec

Also = Literal["xla", "communication", "precision"]


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
        if self.shard != "none" and self.nproc is None:
            raise UsageError(
                "--shard cuts what several workers hold, and there is one worker. Expected --nproc N, too. Received: "
                f"--shard {self.shard} without --nproc"
            )
        if self.shard_embeddings is not None and self.nproc is None:
            raise UsageError(
                "--shard-embeddings gives each of several workers some rows, and there is one worker. Expected --nproc "
                f"N, too. Received: --shard-embeddings {self.shard_embeddings} without --nproc"
            )
        if self.tensor != 1 and self.nproc is None:
            raise UsageError(
                "--tensor cuts weights between workers, and there is one worker. Expected --nproc N, too. Received: "
                f"--tensor {self.tensor} without --nproc"
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
