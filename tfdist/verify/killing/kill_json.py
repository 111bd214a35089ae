"""JSON report of `tfdist verify --kill`."""

from __future__ import annotations

from typing import Any

from tfdist.verify.killing.kill_results import KilledAttempt, KillVerification
from tfdist.verify.killing.kill_spec import KillSpec
from tfdist.verify.killing.trace_comparison import Finding
from tfdist.verify.relative_difference import json_number


def to_json(spec: KillSpec, verification: KillVerification) -> dict[str, Any]:
    """The content of `--output FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
    return {
        "target": spec.target,
        "args": list(spec.args),
        "options": spec.replica_options,
        "seed": spec.seed,
        "workers": spec.workers,
        "kills": spec.kills,
        "steps": verification.steps,
        "exit_code": verification.code,
        "failure": verification.failure,
        "repeatable": verification.is_repeatable,
        "attempts": [_attempt(attempt) for attempt in verification.attempts],
        "comparisons": [finding_json(finding) for finding in verification.findings],
    }


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
