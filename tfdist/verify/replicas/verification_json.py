"""JSON report of `tfdist verify`."""

from __future__ import annotations

from typing import Any

from tfdist.verify.relative_difference import json_number
from tfdist.verify.replicas.comparison_results import ComparisonResult, Verification
from tfdist.verify.replicas.recording_comparison import ComparedMoment, Comparison, Difference
from tfdist.verify.replicas.verify_spec import VerifySpec


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
