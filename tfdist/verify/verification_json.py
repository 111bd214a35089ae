"""The report of `tfdist verify` for programs: JSON."""

from __future__ import annotations

import math
from typing import Any

from tfdist.verify.recording_comparison import ComparedMoment, Comparison, Difference
from tfdist.verify.results import ComparisonResult, Verification
from tfdist.verify.verify_spec import VerifySpec


def to_json(spec: VerifySpec, verification: Verification) -> dict[str, Any]:
    """The content of `--report FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
    return {
        "target": spec.target,
        "args": list(spec.args),
        "seed": spec.seed,
        "steps": spec.steps,
        "tolerance": {"least": verification.least, "measured": verification.is_measured},
        "exit_code": verification.code,
        "models": list(verification.facts),
        "comparisons": [_result(result) for result in verification.results],
    }


def _result(result: ComparisonResult) -> dict[str, Any]:
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
        "relative": number(difference.relative),
        "allowed": number(difference.allowed),
        "reference": number(difference.reference),
        "run": number(difference.other),
    }


def number(value: float | None) -> float | str | None:
    """A number for JSON, which has none that are not finite."""
    return value if value is None or math.isfinite(value) else str(value)
