"""Rows of the selftest: what is tried, over as many jobs as it takes, how each is judged, and what came of it; pure.

Names of rows are a contract: `--only` takes them. The row that ends a job has failed, and a new job takes the rest.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.launch.worker_options import WorkerOptions
from tfdist.selftest.layouts import Layout
from tfdist.training.probes.probe_files import Recording
from tfdist.verify.replicas.verification_report import ComparisonVerdict
from tfdist.verify.runs import DIFFERS


class RowKind(enum.Enum):
    """The way in which a row is judged."""

    COMPARED = "compared"  # a training, recorded step by step and compared with that on one device
    LOADED = "loaded"  # the same, and what it saved is loaded and trained further on one device
    RESUMED = "resumed"  # a training that is killed, and ends as an untouched one, to the bit
    COPIED = "copied"  # copies and sums that are checked to the bit
    TIMED = "timed"  # times of a step, which are not compared


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: For tables and `--only`.
        title: For people.
        kind: How it is judged.
    """

    name: str
    title: str
    kind: RowKind = RowKind.COMPARED


ROWS = (
    Row("copies", "copies between devices and sums over them, to the bit", RowKind.COPIED),
    Row("dense", "dense layers, Adam with clipping, metrics, uneven last batches"),
    Row("masks", "an embedding with masks through an LSTM, weights of samples"),
    Row("statistics", "convolutions with BatchNormalization"),
    Row("random", "random layers: augmentation, noise, dropout"),
    Row("embedding", "an embedding with sparse gradients, clipped"),
    Row("accumulation", "gradient accumulation, which an epoch ends inside"),
    Row("own_step", "a train_step of one's own, added losses, regularizers"),
    Row("coupled", "losses over the pairs and the whole of a batch: contrastive, Dice"),
    Row("xla", "jit_compile=True"),
    Row("mixed_float16", "mixed_float16 with loss scaling"),
    Row("mixed_bfloat16", "mixed_bfloat16"),
    Row("saving", "a model saved on several replicas, loaded on one and trained further", RowKind.LOADED),
    Row("resume", "a training killed by SIGKILL and resumed, to the bit", RowKind.RESUMED),
    Row("speed", "times of a step", RowKind.TIMED),
)
"""All rows, in the order in which they run."""


@dataclass(frozen=True)
class RowResult:
    """Result of a row in one layout.

    Attributes:
        row: The row.
        layout: Where it ran.
        verdict: The outcome.
        greatest: The relative difference that is greatest, in relation to what is allowed of it; None without one.
        allowed: What is allowed of it.
        where: What the difference is of, or what was compared.
        reason: Why it failed or was not run; what to do where it differs.
        detail: All of it, in lines: the steps of both runs, or the end of a traceback.
        document: All of it, in JSON's types.
        seconds: How long the row took in this layout.
    """

    row: Row
    layout: Layout
    verdict: ComparisonVerdict
    greatest: float | None = None
    allowed: float | None = None
    where: str = ""
    reason: str = ""
    detail: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def failed(row: Row, layout: Layout, reason: str, detail: str = "", seconds: float = 0.0) -> RowResult:
    """The result of a row that did not come to its end."""
    return RowResult(row, layout, ComparisonVerdict.FAILED, reason=reason, detail=detail, seconds=seconds)


def not_run(row: Row, layout: Layout, reason: str) -> RowResult:
    """The result of a row for which there was no time."""
    return RowResult(row, layout, ComparisonVerdict.SKIPPED, reason=reason)


def exit_code(results: Sequence[RowResult]) -> int:
    """That of rows that differ before that of rows that failed or were not run."""
    verdicts = {result.verdict for result in results}
    if ComparisonVerdict.PARTED in verdicts:
        return DIFFERS
    # What was not run has not been shown to be the same.
    is_open = not verdicts.isdisjoint((ComparisonVerdict.FAILED, ComparisonVerdict.SKIPPED))
    return WorkerFailedError.exit_code if is_open else 0


@dataclass(frozen=True)
class RowRun:
    """The outcome of a row in one job.

    Attributes:
        problem: Why it did not finish; empty where it did.
        detail: The end of the traceback or of the log.
        seconds: How long it took.
        recordings: One a worker, the chief's first, where it was recorded.
        found: What the workers have found, the chief's first, where it measures.
        saved: Where a row of its job saved a model.
    """

    problem: str = ""
    detail: str = ""
    seconds: float = 0.0
    recordings: tuple[Recording, ...] = ()
    found: tuple[Mapping[str, Any], ...] = ()
    saved: str = ""


@dataclass(frozen=True)
class JobEnd:
    """The outcome of one job.

    Attributes:
        rows: What came of the rows that it finished.
        begun: The row that it was in; None where it was in none.
        problem: Why it ended before its last row; empty where it did not.
        detail: The end of the traceback or of the log.
    """

    rows: Mapping[str, RowRun]
    begun: str | None = None
    problem: str = ""
    detail: str = ""


def run_through(names: Sequence[str], run: Callable[[Sequence[str]], JobEnd]) -> dict[str, RowRun]:
    """Runs all rows, with as many jobs as that takes.

    Args:
        names: The rows, in order.

    Returns:
        Name -> how the row ended.
    """
    left, ended = list(names), dict[str, RowRun]()
    while left:
        end = run(left)
        ended |= end.rows
        left = [name for name in left if name not in ended]
        if left and end.begun in left:
            # The chief may have finished rows before the one that it was in, while a worker that was gone by then had
            # not: they have failed, too.
            place = left.index(end.begun) + 1
            ended |= {name: RowRun(end.problem or "it did not come to its end", end.detail) for name in left[:place]}
            left = left[place:]
        elif left:
            # Not a row's fault: another job would end the same way.
            ended |= {name: RowRun(end.problem or "it was never begun", end.detail) for name in left}
            left = []
    return ended


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
