"""Report of `tfdist verify --kill --hosts`: what happened, the findings, the exit code; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfdist.text import format_count, table
from tfdist.verify.hosts.schedule import HostEvent, HostsSpec
from tfdist.verify.killing.kill_report import HEADINGS, TracedVerification, finding_lines, step_cell
from tfdist.verify.killing.trace_comparison import FindingKind

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


@dataclass(frozen=True, kw_only=True)
class HostsVerification(TracedVerification):
    """Outcome of a verification with hosts that are lost.

    Attributes:
        hosts: On how many hosts.
        losses: How often hosts were lost.
        generations: The starts of the workers of the other run.
        is_exact: Whether it was compared to the bit, as the number of workers has not changed.
    """

    hosts: int = 0
    losses: int = 0
    generations: tuple[Generation, ...] = ()
    is_exact: bool = False


def to_json(spec: HostsSpec, verification: HostsVerification) -> dict[str, Any]:
    """The content of `--output FILE`."""
    options = {"hosts": spec.hosts, "min_workers": spec.least, "kills": spec.kills, "exact": verification.is_exact}
    return verification.to_json(spec, map(_generation, verification.generations), **options)


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
        return verification.failed_text
    headings = HEADINGS if verification.is_exact else _HEADINGS
    findings = finding_lines(verification.findings, verification.is_repeatable, headings)
    lines = [*_generations(verification), "", *findings, ""]
    times = "once" if verification.losses == 1 else f"{verification.losses} times"
    return "\n".join([*lines, f"verify: hosts lost {times}, {verification.verdict}"])


def _generations(verification: HostsVerification) -> Iterator[str]:
    steps = format_count(verification.steps, "step")
    yield f"The untouched run trained {steps} on {format_count(verification.hosts, 'host')}. The other one:"
    rows = [("attempt", "workers", "steps before", "after step", "")]
    for each in verification.generations:
        workers = "-" if each.workers is None else str(each.workers)
        happened = "" if each.event is None else each.event.text
        rows.append((str(each.attempt), workers, step_cell(each.begun), step_cell(each.ended), happened))
    yield from (line.rstrip() for line in table(rows, "rrrrl", indent="  "))
