"""Report of `tfdist verify`: the verdict and causes of each comparison, the exit code; as a table and as JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.launch.worker_options import Compression
from tfdist.text import column_widths, table, wrap
from tfdist.verify.relative_difference import json_number
from tfdist.verify.replicas.likely_causes import Cause, ModelFacts, likely_causes
from tfdist.verify.replicas.recording_comparison import (
    HALF,
    MARGIN,
    ComparedMoment,
    Comparison,
    Difference,
    QuantityKind,
)
from tfdist.verify.replicas.variants import Variant, VerifySpec
from tfdist.verify.runs import DIFFERS

_MOST_NAMES = 3
_LONG_EPOCH = 200
_HEADINGS: tuple[tuple[QuantityKind, str], ...] = (
    ("data", "data"),
    ("loss", "loss"),
    ("gradient norm", "gradient"),
    ("weights", "weights"),
    ("metrics", "metrics"),
    ("copies", "copies"),
)


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


def judged(variant: Variant, comparison: Comparison, facts: ModelFacts) -> ComparisonResult:
    """The result of comparing a variant with its reference.

    Args:
        comparison: Both runs, moment by moment.
    """
    if comparison.passed:
        return ComparisonResult(variant.label, variant.reference, ComparisonVerdict.PASSED, comparison)
    causes = likely_causes(comparison, facts, variant.versus, variant.replicas, variant.compression)
    return ComparisonResult(variant.label, variant.reference, ComparisonVerdict.PARTED, comparison, tuple(causes))


def to_json(spec: VerifySpec, verification: Verification) -> dict[str, Any]:
    """The content of `--output FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
    return {
        "target": spec.target,
        "args": list(spec.args),
        "options": spec.replica_options,
        "seed": spec.seed,
        "steps": spec.steps,
        "tolerance": {"least": verification.least, "measured": verification.is_measured},
        "exit_code": verification.code,
        "models": list(verification.facts),
        "comparisons": [result_json(result) for result in verification.results],
    }


def result_json(result: ComparisonResult) -> dict[str, Any]:
    """One comparison, with every number of it."""
    return {
        "run": result.label,
        "reference": result.reference,
        "verdict": result.verdict.value,
        "reason": result.reason,
        "causes": [{"key": cause.key, "text": cause.text} for cause in result.causes],
        **(_comparison(result.comparison) if result.comparison else {}),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    first, weight = comparison.first(), comparison.first("weights")
    return {
        "first": first and _difference(first),
        "first_weight": weight and _difference(weight),
        "steps": [_row(row) for row in comparison.rows],
    }


def _row(row: ComparedMoment) -> dict[str, Any]:
    return {"step": row.step, "differences": [_difference(difference) for difference in row.differences]}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "step": difference.step,
        "kind": difference.kind,
        "name": difference.name,
        "relative": json_number(difference.relative),
        "allowed": json_number(difference.allowed),
        "reference": json_number(difference.reference),
        "run": json_number(difference.other),
    }


def render(verification: Verification, steps: int) -> str:
    """All comparisons, one below the other, and the verdict.

    Args:
        steps: Steps that were asked for.
    """
    head = "\n".join(wrap(line, indent=2) for line in _head(verification, steps)) if verification.trained else ""
    blocks = ["\n".join(result_lines(result)) for result in verification.results]
    return "\n\n".join([*([head] if head else []), *blocks, _verdict(verification)])


def _head(verification: Verification, steps: int) -> Iterator[str]:
    least = f"{verification.least:g}"
    if verification.is_measured:
        text = (
            f"Tolerance: {MARGIN} times what rounding was seen to do to this training on 1 replica, and at least "
            f"{least}."
        )
    else:
        text = f"Tolerance: a relative difference of {least}."
    yield text
    if verification.gpus:
        yield (
            "TensorFloat-32 is off in all of these runs, in what XLA compiles and in cuBLAS and cuDNN: GPUs use it in "
            "some kernels and not in others, and its rounding would hide faults."
        )
    if verification.half:
        yield "Layers compute in 16 bits, so weights are judged before the first step alone."
    if verification.compression != "none" and verification.is_measured:
        yield (
            f"Workers send gradients in {verification.compression}: of what they train a difference of {HALF:g} is "
            "allowed at least, and weights are judged before the first step alone."
        )
    if verification.trained < steps:
        yield f"The target trained {verification.trained} of the {steps} steps, and then ended."
    epoch = max((model["epoch_steps"] or 0 for model in verification.facts), default=0)
    if verification.trained < epoch <= _LONG_EPOCH:
        yield (
            f"No epoch ended in {verification.trained} steps: --steps {epoch} compares its last batch too, which may "
            "be smaller."
        )


def _verdict(verification: Verification) -> str:
    counts = [
        (verdict, sum(result.verdict is verdict for result in verification.results)) for verdict in ComparisonVerdict
    ]
    said = ", ".join(f"{count} {verdict.value}" for verdict, count in counts if count)
    return f"verify: {said} (exit code {verification.code})"


def result_lines(result: ComparisonResult) -> Iterator[str]:
    """The lines of one comparison: its steps, its verdict and, where the runs part, the likely causes."""
    yield f"{result.label} against {result.reference}" if result.reference else result.label
    if result.comparison is None:
        yield _indented(f"{result.verdict.name}  {result.reason}")
        return
    yield from _table(result.comparison, result)
    if result.verdict is ComparisonVerdict.PASSED:
        yield _indented(f"PASSED  the same up to rounding; {_largest(result.comparison)}")
    else:
        yield from _parting(result.comparison, result.label)
    for cause in result.causes:
        yield _indented(f"likely cause: {cause.text}")
    yield from _undecided(result.comparison)


def _table(comparison: Comparison, result: ComparisonResult) -> Iterator[str]:
    """A line for each moment: both losses and gradient norms, then the largest relative difference of each kind."""
    kinds = [(kind, heading) for kind, heading in _HEADINGS if any(row.of(kind) for row in comparison.rows)]
    both = [result.reference or "", result.label]
    lines = [["step", *both, *both, *(heading for _, heading in kinds)]]
    for row in comparison.rows:
        numbers = [*_numbers(row, "loss"), *_numbers(row, "gradient norm")]
        lines.append([str(row.step), *numbers, *(_cell(row, kind) for kind, _ in kinds)])
    widths = column_widths(lines)
    loss, norm = widths[1] + 2 + widths[2], widths[3] + 2 + widths[4]
    yield (
        f"  {'':{widths[0]}}  {'loss, epoch so far':{loss}}  {'gradient norm':{norm}}  largest relative difference of"
    )
    yield from table(lines, "r" * len(widths), indent="  ")


def _numbers(row: ComparedMoment, kind: QuantityKind) -> tuple[str, str]:
    found = row.of(kind)
    if not found or found[0].reference is None or found[0].other is None:
        return "-", "-"
    return f"{found[0].reference:.6g}", f"{found[0].other:.6g}"


def _cell(row: ComparedMoment, kind: QuantityKind) -> str:
    """The largest difference; marked when it is beyond rounding, in brackets when it is not judged."""
    found = row.parted(kind) or row.of(kind)
    if not found:
        return "-"
    if kind == "data":
        return "other !" if found[0].is_beyond else "same"
    text = relative_text(found[0])
    if found[0].is_beyond:
        return f"{text} !"
    return text if math.isfinite(found[0].allowed) else f"({text})"


def relative_text(difference: Difference) -> str:
    """A relative difference in two digits."""
    return "0" if difference.relative == 0 else f"{difference.relative:.1e}"


def _largest(comparison: Comparison) -> str:
    parts = []
    for kind in ("loss", "gradient norm", "weights", "metrics"):
        found = comparison.largest(kind)
        # Weights that are judged before the first step alone are no news.
        if found is not None and any(math.isfinite(d.allowed) for d in comparison.rows[-1].of(kind)):
            where = f" ({found.name}, step {found.step})" if found.relative and kind in ("weights", "metrics") else ""
            parts.append(f"{kind} {relative_text(found)}{where}")
    return "largest differences: " + ", ".join(parts)


def _parting(comparison: Comparison, label: str) -> Iterator[str]:
    first = comparison.first()
    if first is None:
        return
    yield _indented(f"PARTED  at step {first.step}: {_described(first, label)}")
    weight = comparison.first("weights")
    if weight is not None and weight is not first:
        more = next(len(row.parted("weights")) for row in comparison.rows if row.parted("weights")) - 1
        others = f", and {more} more" if more else ""
        yield _indented(f"first weight: {weight.name} at step {weight.step} ({relative_text(weight)}{others})")


def _described(difference: Difference, label: str) -> str:
    what = difference.kind if difference.name == difference.kind else f"{difference.kind} {difference.name}"
    if difference.kind == "copies":
        return f"the copies of {difference.name} on the replicas of {label} ({relative_text(difference)})"
    if difference.kind == "steps":
        return f"one run trained for {difference.reference} steps, the other for {difference.other}"
    numbers = ""
    if difference.kind != "data" and difference.reference is not None and difference.other is not None:
        numbers = f"{difference.reference:.8g} against {difference.other:.8g}, "
    allowed = f"{difference.allowed:.1e} is allowed"
    return f"{what} ({numbers}{relative_text(difference)}; {allowed})"


def _undecided(comparison: Comparison) -> Iterator[str]:
    last = comparison.rows[-1]
    names = [d.name for d in last.of("weights") if not math.isfinite(d.allowed)]
    if names and len(names) < len(last.of("weights")):
        yield _indented(f"not judged, as rounding alone moves them elsewhere in every run: {_named(names)}")
    for row in comparison.rows:
        unsure = [d.kind for d in row.of("loss", "gradient norm", "metrics") if not math.isfinite(d.allowed)]
        if unsure:
            text = f"not judged from step {row.step} on, as this training multiplies rounding: {_named(unsure)}"
            yield _indented(text)
            return


def _named(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MOST_NAMES} more" if len(unique) > _MOST_NAMES else ""
    return ", ".join(unique[:_MOST_NAMES]) + more


def _indented(text: str) -> str:
    return wrap(text, "  ", indent=4)
