"""Terminal report of `tfdist verify --kill --hosts`."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.text import format_count, table, wrap
from tfdist.verify.hosts.hosts_results import HostsVerification
from tfdist.verify.killing.finding_table import HEADINGS, finding_lines, step_cell
from tfdist.verify.killing.trace_comparison import FindingKind

_HEADINGS: dict[FindingKind, str] = {**HEADINGS, "weights": "final weights"}


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
