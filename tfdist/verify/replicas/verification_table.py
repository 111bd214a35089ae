"""Terminal report of `tfdist verify`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tfdist.text import column_widths, table, wrap
from tfdist.verify.replicas.comparison_results import ComparisonResult, ComparisonVerdict, Verification
from tfdist.verify.replicas.recording_comparison import ComparedMoment, Comparison, Difference
from tfdist.verify.replicas.tolerance import HALF, MARGIN, QuantityKind

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


def render(verification: Verification, steps: int) -> str:
    """All comparisons, one below the other, and the verdict.

    Args:
        verification: The results.
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
