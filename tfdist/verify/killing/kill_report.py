"""Report of `tfdist verify --kill`: the attempts, the findings, the exit code; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.launch.worker_requests import Kill
from tfdist.text import format_count, table, wrap
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.trace_comparison import Finding, FindingKind
from tfdist.verify.relative_difference import json_number
from tfdist.verify.runs import DIFFERS, TargetSpec

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


@dataclass(frozen=True, kw_only=True)
class TracedVerification:
    """Outcome of a comparison of a run that was interrupted with an untouched one.

    Attributes:
        steps: Steps that the untouched run trained.
        findings: What was compared; empty where a run failed.
        is_repeatable: Whether two untouched runs are the same; None where that was not tried.
        failure: Why there is nothing to compare; None where there is.
        failure_code: The exit code, then.
    """

    steps: int = 0
    findings: tuple[Finding, ...] = ()
    is_repeatable: bool | None = None
    failure: str | None = None
    failure_code: int = 0

    @property
    def passed(self) -> bool:
        """True if the interrupted run ended as the untouched one."""
        return self.failure is None and not any(finding.parted for finding in self.findings)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.failure is not None:
            return self.failure_code
        return 0 if self.passed else DIFFERS

    @property
    def verdict(self) -> str:
        """The verdict and the exit code, in words."""
        as_untouched = "the same as untouched" if self.passed else "not the same as untouched"
        return f"{as_untouched} (exit code {self.code})"

    @property
    def failed_text(self) -> str:
        """The report of a failure."""
        return f"{wrap(f'FAILED  {self.failure}', indent=2)}\n\nverify: a run failed (exit code {self.code})"

    def to_json(self, spec: TargetSpec, attempts: Iterable[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """The content of `--output FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
        return {
            "target": spec.target,
            "args": list(spec.args),
            "options": spec.replica_options,
            "seed": spec.seed,
            **options,
            "steps": self.steps,
            "exit_code": self.code,
            "failure": self.failure,
            "repeatable": self.is_repeatable,
            "attempts": list(attempts),
            "comparisons": [finding_json(finding) for finding in self.findings],
        }


@dataclass(frozen=True, kw_only=True)
class KillVerification(TracedVerification):
    """Outcome of a verification under kills, with the attempts of the killed run."""

    attempts: tuple[KilledAttempt, ...] = ()


def to_json(spec: KillSpec, verification: KillVerification) -> dict[str, Any]:
    """The content of `--output FILE`."""
    return verification.to_json(spec, map(_attempt, verification.attempts), workers=spec.workers, kills=spec.kills)


def _attempt(attempt: KilledAttempt) -> dict[str, Any]:
    return {
        "steps_before": attempt.begun,
        "steps_after": attempt.ended,
        "killed": None if attempt.kill is None else attempt.kill.worker,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One comparison."""
    return {
        "what": finding.what,
        "same": finding.parted is None,
        "compared": finding.compared,
        "parted": finding.parted,
        "step": finding.step,
        "relative": json_number(finding.relative),
    }


def finding_lines(
    findings: Sequence[Finding], is_repeatable: bool | None, headings: Mapping[FindingKind, str] = HEADINGS
) -> Iterator[str]:
    """The table of what was compared, and where the runs part, if they do.

    Args:
        findings: Causes before their effects.
        is_repeatable: Whether two untouched runs are the same; None where that was not tried.
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


def render(verification: KillVerification) -> str:
    """The attempts, what was compared, and the verdict."""
    if verification.failure is not None:
        return verification.failed_text
    lines = [*_attempts(verification), "", *finding_lines(verification.findings, verification.is_repeatable), ""]
    kills = len(verification.attempts) - 1
    times = "once" if kills == 1 else f"{kills} times"
    return "\n".join([*lines, f"verify: killed {times}, {verification.verdict}"])


def _attempts(verification: KillVerification) -> Iterator[str]:
    yield f"The untouched run trained {format_count(verification.steps, 'step')}. The other one:"
    rows = [("attempt", "steps before", "killed", "after step")]
    for number, attempt in enumerate(verification.attempts):
        killed = "-" if attempt.kill is None else f"worker {attempt.kill.worker}"
        rows.append((str(number), step_cell(attempt.begun), killed, step_cell(attempt.ended)))
    yield from table(rows, "rrlr", indent="  ")
