"""Options of `tfdist selftest`, checked."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.launch.worker_options import WorkerOptions
from tfdist.selftest.rows import ROWS, Row


@dataclass(frozen=True)
class SelftestSpec(WorkerOptions):
    """Options of `tfdist selftest`, and those of its runs.

    Attributes:
        nproc: Workers; None for one on each GPU, and 2 on the CPU.
        only: Names of the rows to run; empty for all.
        timeout: Seconds that all of it may take.
        rows: The rows there are.
        matrix: The module that runs them in workers, as `matrix.__main__` does.

    Raises:
        UsageError: A value is not one that its option takes.
    """

    nproc: int | None = None
    only: tuple[str, ...] = ()
    timeout: float = 1800.0
    rows: tuple[Row, ...] = ROWS
    matrix: str = "tfdist.selftest.matrix"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """The options that decide how runs compute and how their replicas work together, for reports."""
        return {name: getattr(self, name) for name in ("batch_norm", "communication", "compression", "kernels")}

    @property
    def chosen(self) -> tuple[Row, ...]:
        """The rows to run."""
        return tuple(row for row in self.rows if not self.only or row.name in self.only)
