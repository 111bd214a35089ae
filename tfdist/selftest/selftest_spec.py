"""Options of `tfdist selftest`, checked."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.launch.worker_options import BatchNorm, Communication, Compression
from tfdist.selftest.rows import ROWS, Row


@dataclass(frozen=True)
class SelftestSpec:
    """Options of `tfdist selftest`.

    Attributes:
        devices: GPUs to use; None for all.
        logical_devices: Parts into which each GPU, or the CPU, is split; None for what `layouts` chooses.
        nproc: Workers; None for one on each GPU, and 2 on the CPU.
        only: Names of the rows to run; empty for all.
        timeout: Seconds that all of it may take.
        verbose: Whether the terminal shows what the launchers and the chiefs of the runs say.
        batch_norm: Whose statistics BatchNormalization takes on several replicas.
        communication: The collectives.
        compression: The type in which workers send gradients; "none" for their own.
        kernels: By which kernels all runs compute on the CPU, those on one device too.
        rows: The rows there are.
        matrix: The module that runs them in workers, as `matrix.__main__` does.

    Raises:
        UsageError: A value is not one that its option takes.
    """

    devices: tuple[int, ...] | None = None
    logical_devices: int | None = None
    nproc: int | None = None
    only: tuple[str, ...] = ()
    timeout: float = 1800.0
    verbose: bool = False
    batch_norm: BatchNorm = "synchronized"
    communication: Communication = "auto"
    compression: Compression = "none"
    kernels: Kernels = "auto"
    rows: tuple[Row, ...] = ROWS
    matrix: str = "tfdist.selftest.matrix"

    def __post_init__(self) -> None:
        if self.nproc == 1:
            raise UsageError("One worker is what several are compared with. Expected --nproc 2 or more. Received: 1")
        names = [row.name for row in self.rows]
        for name in self.only:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                meant = f" Did you mean {near[0]}?" if near else ""
                raise UsageError(f"--only expects one of {', '.join(names)}. Received: --only {name}.{meant}")

    @property
    def run_options(self) -> dict[str, str]:
        """What decides how runs compute and how their replicas work together, for reports."""
        return {
            "batch_norm": self.batch_norm,
            "communication": self.communication,
            "compression": self.compression,
            "kernels": self.kernels,
        }

    @property
    def chosen(self) -> tuple[Row, ...]:
        """The rows to run."""
        return tuple(row for row in self.rows if not self.only or row.name in self.only)
