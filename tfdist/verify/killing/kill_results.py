"""Results of `tfdist verify --kill`: the attempts, the findings and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.launch.trace_request import Kill
from tfdist.verify.exit_codes import DIFFERS
from tfdist.verify.killing.trace_comparison import Finding


@dataclass(frozen=True)
class KilledAttempt:
    """One attempt of the killed run.

    Attributes:
        begun: Steps of the run done before its first one; None where it was killed before that.
        ended: Steps of the run done when it ended.
        kill: What ended it; None for the last, which finished, and for one that failed by itself.
    """

    begun: int | None
    ended: int | None
    kill: Kill | None


@dataclass(frozen=True)
class KillVerification:
    """Outcome of a verification under kills.

    Attributes:
        steps: Steps that the untouched run trained.
        attempts: The attempts of the killed run.
        findings: What was compared; empty where a run failed.
        is_repeatable: Whether two untouched runs are the same; None where that was not tried.
        failure: Why there is nothing to compare; None where there is.
        code: The exit code.
    """

    steps: int = 0
    attempts: tuple[KilledAttempt, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_repeatable: bool | None = None
    failure: str | None = None
    failure_code: int = 0

    @property
    def passed(self) -> bool:
        """True if the killed run ended as the untouched one."""
        return self.failure is None and not any(finding.parted for finding in self.findings)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.failure is not None:
            return self.failure_code
        return 0 if self.passed else DIFFERS
