"""Report of `tfdist verify --kill --hosts`: what happened, the findings, the exit code; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfdist.text import format_count, table, wrap
from tfdist.verify.hosts.schedule import HostEvent, HostsSpec
from tfdist.verify.killing.kill_report import HEADINGS, finding_json, finding_lines, step_cell
from tfdist.verify.killing.trace_comparison import Finding, FindingKind
from tfdist.verify.runs import DIFFERS

_HEADINGS: dict[FindingKind, str] = {**HEADINGS, "weights": "final weights"}


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


def to_json(spec: HostsSpec, verification: HostsVerification) -> dict[str, Any]:
    """The content of `--output FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
    return {
        "target": spec.target,
        "args": list(spec.args),
        "options": spec.replica_options,
        "seed": spec.seed,
        "hosts": spec.hosts,
        "min_workers": spec.least,
        "kills": spec.kills,
        "steps": verification.steps,
        "exit_code": verification.code,
        "failure": verification.failure,
        "exact": verification.is_exact,
        "repeatable": verification.is_repeatable,
        "attempts": [_generation(generation) for generation in verification.generations],
        "comparisons": [finding_json(finding) for finding in verification.findings],
    }


def _generation(generation: Generation) -> dict[str, Any]:
    event = generation.event
    return {
        "attempt": generation.attempt,
        "workers": generation.workers,
        "steps_before": generation.begun,
        "steps_after": generation.ended,
        "event": None if event is None else {"kind": event.kind, "hosts": list(event.hosts), "cut": event.is_cut},
    }


def render(verification: HostsVerification) -> str:
    """Returns what happened to the hosts, what was compared, and the verdict."""
    if verification.failure is not None:
        text = f"FAILED  {verification.failure}"
        return f"{wrap(text, indent=2)}\n\nverify: a run failed (exit code {verification.code})"
    headings = HEADINGS if verification.is_exact else _HEADINGS
    findings = finding_lines(verification.findings, verification.is_repeatable, headings)
    lines = [*_generations(verification), "", *findings, ""]
    times = "once" if verification.losses == 1 else f"{verification.losses} times"
    verdict = "the same as untouched" if verification.passed else "not the same as untouched"
    return "\n".join([*lines, f"verify: hosts lost {times}, {verdict} (exit code {verification.code})"])


def _generations(verification: HostsVerification) -> Iterator[str]:
    steps = format_count(verification.steps, "step")
    yield f"The untouched run trained {steps} on {format_count(verification.hosts, 'host')}. The other one:"
    rows = [("attempt", "workers", "steps before", "after step", "")]
    for each in verification.generations:
        workers = "-" if each.workers is None else str(each.workers)
        happened = "" if each.event is None else each.event.text
        rows.append((str(each.attempt), workers, step_cell(each.begun), step_cell(each.ended), happened))
    yield from (line.rstrip() for line in table(rows, "rrrrl", indent="  "))
