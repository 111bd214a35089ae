"""Results of a verification: the verdict and the causes of each comparison, and the exit code."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tfdist.launch.worker_options import Compression
from tfdist.verify.exit_codes import DIFFERS
from tfdist.verify.replicas.cause_texts import Cause
from tfdist.verify.replicas.recording_comparison import Comparison


class ComparisonVerdict(enum.Enum):
    """Outcome of a comparison."""

    PASSED = "passed"  # the same, up to rounding
    PARTED = "parted"
    FAILED = "failed"  # one of the runs ended with an error, or trained nothing
    SKIPPED = "skipped"  # cannot be had on this machine or for this target


@dataclass(frozen=True)
class ComparisonResult:
    """Result of one comparison.

    Attributes:
        label: The run that was compared.
        reference: The run that it was compared with; None when the label says it.
        verdict: The outcome.
        comparison: Both runs, moment by moment; None where a run is missing.
        causes: Why they parted, the likeliest first.
        reason: Why it was skipped, or how it failed.
        code: The exit code of the run that failed.
    """

    label: str
    reference: str | None
    verdict: ComparisonVerdict
    comparison: Comparison | None = None
    causes: tuple[Cause, ...] = ()
    reason: str | None = None
    code: int = 0


@dataclass(frozen=True)
class Verification:
    """Results of all comparisons.

    Attributes:
        results: In the order in which they were made.
        least: The least relative tolerance.
        is_measured: Whether the effect of rounding was measured.
        half: Whether the target computes in 16 bits.
        compression: The type in which workers send gradients; "none" for their own.
        facts: Recorded facts of the reference's models.
        trained: Steps that the reference trained.
        gpus: GPUs that TensorFlow saw.
    """

    results: tuple[ComparisonResult, ...]
    least: float
    is_measured: bool
    half: bool = False
    compression: Compression = "none"
    facts: tuple[dict[str, Any], ...] = ()
    trained: int = 0
    gpus: int = 0

    @property
    def code(self) -> int:
        """The exit code: that of runs that parted before that of one that failed."""
        if any(result.verdict is ComparisonVerdict.PARTED for result in self.results):
            return DIFFERS
        return next((result.code for result in self.results if result.verdict is ComparisonVerdict.FAILED), 0)
