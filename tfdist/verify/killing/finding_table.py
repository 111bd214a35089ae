"""Table of what was compared, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfdist.text import table, wrap
from tfdist.verify.killing.trace_comparison import Finding, FindingKind

HEADINGS: dict[FindingKind, str] = {
    "alone": "one worker as all",
    "resume": "each attempt begins later",
    "samples": "order of samples",
    "history": "history",
    "weights": "final weights, to the bit",
}
_LIKELY: dict[FindingKind, str] = {
    "alone": "the training depends on the number of workers, or a small difference grows until it cannot be told from "
    "another training: tfdist verify without --kill says which; --steps N ends the runs earlier.",
    "resume": "the training does not resume from its checkpoints, or makes none after the first.",
    "samples": "a dataset whose position within an epoch is not known, or that is shuffled without a seed: use "
    "tfdist.data, NumPy arrays, or a dataset that gives the same batches in the same order in every process.",
    "history": "a metric or a callback with a state of its own that no checkpoint holds.",
    "weights": "a state that no checkpoint holds: Python attributes of a layer or a callback, or random numbers from "
    "another generator than Keras's, NumPy's, Python's and TensorFlow's.",
}


def finding_lines(
    findings: Sequence[Finding], is_repeatable: bool | None, headings: Mapping[FindingKind, str] = HEADINGS
) -> Iterator[str]:
    """The table of what was compared, and where the runs part, if they do.

    Args:
        findings: Causes before their effects.
        is_repeatable: Whether two untouched runs are the same; None where that was not tried.
        headings: What the kinds are called.
    """
    rows = [(headings[finding.what], _said(finding), finding.compared) for finding in findings]
    yield from table(rows, "lll", indent="  ")
    parted = next((finding for finding in findings if finding.parted), None)
    if parted is None:
        return
    yield ""
    yield _indented(f"PARTED  {headings[parted.what]}: {_place(parted)}")
    if is_repeatable is False:
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


def step_cell(steps: int | None) -> str:
    """A number of steps in a table."""
    return "-" if steps is None else f"{steps:,}"


def _indented(text: str) -> str:
    return wrap(text, "  ", indent=4)
