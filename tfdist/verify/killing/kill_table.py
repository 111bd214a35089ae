"""Terminal report of `tfdist verify --kill`."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.text import format_count, table, wrap
from tfdist.verify.killing.kill_results import KillVerification
from tfdist.verify.killing.trace_comparison import Finding, FindingKind

_HEADINGS: dict[FindingKind, str] = {
    "resume": "each attempt begins later",
    "samples": "order of samples",
    "history": "history",
    "weights": "final weights, to the bit",
}
_LIKELY: dict[FindingKind, str] = {
    "resume": "the training does not resume from its checkpoints, or makes none after the first.",
    "samples": "a dataset whose position within an epoch is not known, or that is shuffled without a seed: use "
    "tfdist.data, NumPy arrays, or a dataset that gives the same batches in the same order in every process.",
    "history": "a metric or a callback with a state of its own that no checkpoint holds.",
    "weights": "a state that no checkpoint holds: Python attributes of a layer or a callback, or random numbers from "
    "another generator than Keras's, NumPy's, Python's and TensorFlow's.",
}


def render(verification: KillVerification) -> str:
    """The attempts, what was compared, and the verdict."""
    if verification.failure is not None:
        text = f"FAILED  {verification.failure}"
        return f"{wrap(text, indent=2)}\n\nverify: a run failed (exit code {verification.code})"
    lines = [*_attempts(verification), "", *_findings(verification), ""]
    kills = len(verification.attempts) - 1
    times = "once" if kills == 1 else f"{kills} times"
    verdict = "the same as untouched" if verification.passed else "not the same as untouched"
    return "\n".join([*lines, f"verify: killed {times}, {verdict} (exit code {verification.code})"])


def _attempts(verification: KillVerification) -> Iterator[str]:
    yield f"The untouched run trained {format_count(verification.steps, 'step')}. The other one:"
    rows = [("attempt", "steps before", "killed", "after step")]
    for number, attempt in enumerate(verification.attempts):
        killed = "-" if attempt.kill is None else f"worker {attempt.kill.worker}"
        rows.append((str(number), _number(attempt.begun), killed, _number(attempt.ended)))
    yield from table(rows, "rrlr", indent="  ")


def _findings(verification: KillVerification) -> Iterator[str]:
    rows = [(_HEADINGS[finding.what], _said(finding), finding.compared) for finding in verification.findings]
    yield from table(rows, "lll", indent="  ")
    parted = next((finding for finding in verification.findings if finding.parted), None)
    if parted is None:
        return
    yield ""
    yield _indented(f"PARTED  {_HEADINGS[parted.what]}: {_place(parted)}")
    if verification.is_repeatable is False:
        text = (
            "likely cause: the training cannot be repeated. Two untouched runs part as well: something in it has no "
            "seed or depends on the time; tfdist verify without --kill tells more"
        )
        yield _indented(text + ".")
    else:
        yield _indented(f"likely cause: {_LIKELY[parted.what]}")


def _said(finding: Finding) -> str:
    return "PARTED" if finding.parted else "same"


def _place(finding: Finding) -> str:
    apart = "" if finding.relative is None else f" (relative difference {finding.relative:.1e})"
    return f"{finding.parted}{apart}"


def _number(steps: int | None) -> str:
    return "-" if steps is None else f"{steps:,}"


def _indented(text: str) -> str:
    return wrap(text, "  ", indent=4)
