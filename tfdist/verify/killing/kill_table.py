"""Terminal report of `tfdist verify --kill`."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.text import format_count, table, wrap
from tfdist.verify.killing.finding_table import finding_lines, step_cell
from tfdist.verify.killing.kill_results import KillVerification


def render(verification: KillVerification) -> str:
    """The attempts, what was compared, and the verdict."""
    if verification.failure is not None:
        text = f"FAILED  {verification.failure}"
        return f"{wrap(text, indent=2)}\n\nverify: a run failed (exit code {verification.code})"
    lines = [*_attempts(verification), "", *finding_lines(verification.findings, verification.is_repeatable), ""]
    kills = len(verification.attempts) - 1
    times = "once" if kills == 1 else f"{kills} times"
    verdict = "the same as untouched" if verification.passed else "not the same as untouched"
    return "\n".join([*lines, f"verify: killed {times}, {verdict} (exit code {verification.code})"])


def _attempts(verification: KillVerification) -> Iterator[str]:
    yield f"The untouched run trained {format_count(verification.steps, 'step')}. The other one:"
    rows = [("attempt", "steps before", "killed", "after step")]
    for number, attempt in enumerate(verification.attempts):
        killed = "-" if attempt.kill is None else f"worker {attempt.kill.worker}"
        rows.append((str(number), step_cell(attempt.begun), killed, step_cell(attempt.ended)))
    yield from table(rows, "rrlr", indent="  ")
