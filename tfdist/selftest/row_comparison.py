"""Comparison of a row's recordings with those on one device, by the rules of `tfdist verify`."""

from __future__ import annotations

import math
from dataclasses import replace

from tfdist.launch.worker_options import Compression
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_results import RowResult, failed
from tfdist.selftest.row_runs import RowRun
from tfdist.selftest.rows import Row
from tfdist.verify.replicas.comparison_results import ComparisonResult, ComparisonVerdict
from tfdist.verify.replicas.judgement import judged
from tfdist.verify.replicas.recorded_facts import ModelFacts
from tfdist.verify.replicas.recording_comparison import Comparison, Difference, compare
from tfdist.verify.replicas.rounding_effects import measure_tolerance, reproduced
from tfdist.verify.replicas.variants import AGAIN, Variant
from tfdist.verify.replicas.verification_json import result_json
from tfdist.verify.replicas.verification_table import result_lines

_EXACT = 1e-30
"""Stands for an allowed difference of 0, to divide by."""


def compare_row(
    row: Row, layout: Layout, one: RowRun, again: RowRun, other: RowRun, compression: Compression = "none"
) -> RowResult:
    """Compares a training with that on one device.

    Args:
        row: The row.
        layout: Where `other` ran.
        one: The row on one device.
        again: The same with weights that were moved by a rounding error, which makes the tolerance.
        other: The row in the layout.
        compression: The type in which workers sent gradients in `other`; "none" for their own.
    """
    for label, run in (("1 device", one), ("1 device again", again), (layout.label, other)):
        if run.problem:
            return failed(row, layout, f"on {label}: {run.problem}", run.detail, other.seconds)
    reference, perturbed = one.recordings[0], again.recordings[0]
    facts = ModelFacts.of(reference.facts["models"])
    first = reproduced(reference, perturbed, half=facts.half)
    if not first.passed:
        result = judged(replace(AGAIN, reference="1 device", label="1 device again"), first, facts)
        return _result(row, layout, result, other.seconds)
    tolerance = measure_tolerance(reference, perturbed, half=facts.half)
    if compression != "none":
        tolerance = tolerance.compressed()
    comparison = compare(reference, other.recordings, tolerance)
    variant = Variant(
        layout.label, "replicas", layout.workers, layout.replicas, compression=compression, reference="1 device"
    )
    return _result(row, layout, judged(variant, comparison, facts), other.seconds)


def part_of(run: RowRun, fits: range) -> RowRun:
    """A run as if it had had some of its `fit`s only."""
    return run if run.problem else replace(run, recordings=tuple(each.part(fits) for each in run.recordings))


def _result(row: Row, layout: Layout, result: ComparisonResult, seconds: float) -> RowResult:
    assert result.comparison is not None
    greatest = tightest(result.comparison)
    if greatest is None:
        return failed(row, layout, "nothing was compared: the recordings have nothing in common", seconds=seconds)
    parted = result.verdict is ComparisonVerdict.PARTED
    return RowResult(
        row,
        layout,
        result.verdict,
        greatest.relative,
        greatest.allowed,
        _named(greatest),
        " ".join(f"likely cause: {cause.text}" for cause in result.causes),
        "\n".join(result_lines(result)) if parted else "",
        result_json(result) if parted else {},
        seconds,
    )


def tightest(comparison: Comparison) -> Difference | None:
    """The difference that is greatest in relation to what is allowed of it, of those after a step that are judged."""
    first = comparison.rows[0] if comparison.rows else None
    judged = [
        difference
        for row in comparison.rows
        for difference in row.differences
        if math.isfinite(difference.allowed) and (row is not first or difference.is_beyond)
    ]
    return max(judged, key=lambda difference: difference.relative / max(difference.allowed, _EXACT), default=None)


def _named(difference: Difference) -> str:
    what = difference.kind if difference.name == difference.kind else f"{difference.kind} {difference.name}"
    return f"{what}, step {difference.step}"
