"""Results of `tfdist verify --kill --hosts`: what happened, the findings and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.verify.exit_codes import DIFFERS
from tfdist.verify.hosts.schedule import HostEvent
from tfdist.verify.killing.trace_comparison import Finding


@dataclass(frozen=True)
class Generation:
    """One start of the workers.

    Attributes:
        attempt: Its number, as the logs have it.
        workers: How many took part; None where they were lost before they could say so.
        begun: Steps of the run done before its first one; None where it had none.
        ended: Steps of the run done when it ended.
        event: What ended it; None for the last, and where a host came late.
    """

    attempt: int
    workers: int | None
    begun: int | None
    ended: int | None
    event: HostEvent | None = None


@dataclass(frozen=True)
class HostsVerification:
    """Outcome of a verification with hosts that are lost.

    Attributes:
        steps: Steps that the untouched run trained.
        hosts: On how many hosts.
        losses: How often hosts were lost.
        generations: The starts of the workers of the other run.
        findings: What was compared; empty where a run failed.
        is_exact: Whether it was compared to the bit, as the number of workers has not changed.
        is_repeatable: Whether two untouched runs are the same; None where that was not tried.
        failure: Why there is nothing to compare; None where there is.
        failure_code: The exit code, then.
    """

    steps: int = 0
    hosts: int = 0
    losses: int = 0
    generations: tuple[Generation, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_exact: bool = False
    is_repeatable: bool | None = None
    failure: str | None = None
    failure_code: int = 0

    @property
    def passed(self) -> bool:
        """True if the run ended as the untouched one."""
        return self.failure is None and not any(finding.parted for finding in self.findings)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.failure is not None:
            return self.failure_code
        return 0 if self.passed else DIFFERS
