"""Results of the rows, and the exit code of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.errors import WorkerFailedError
from tfdist.selftest.layouts import Layout
from tfdist.selftest.rows import Row
from tfdist.verify.exit_codes import DIFFERS
from tfdist.verify.replicas.comparison_results import ComparisonVerdict


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
