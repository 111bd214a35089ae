"""JSON report of `tfdist verify --kill --hosts`."""

from __future__ import annotations

from typing import Any

from tfdist.verify.hosts.hosts_results import Generation, HostsVerification
from tfdist.verify.hosts.hosts_spec import HostsSpec
from tfdist.verify.killing.kill_json import finding_json


def to_json(spec: HostsSpec, verification: HostsVerification) -> dict[str, Any]:
    """The content of `--output FILE`. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
    return {
        "target": spec.target,
        "args": list(spec.args),
        "options": spec.replica_options,
        "seed": spec.seed,
        "hosts": spec.hosts,
        "min_workers": spec.least,
        "kills": spec.kills,
        "steps": verification.steps,
        "exit_code": verification.code,
        "failure": verification.failure,
        "exact": verification.is_exact,
        "repeatable": verification.is_repeatable,
        "attempts": [_generation(generation) for generation in verification.generations],
        "comparisons": [finding_json(finding) for finding in verification.findings],
    }


def _generation(generation: Generation) -> dict[str, Any]:
    event = generation.event
    return {
        "attempt": generation.attempt,
        "workers": generation.workers,
        "steps_before": generation.begun,
        "steps_after": generation.ended,
        "event": None if event is None else {"kind": event.kind, "hosts": list(event.hosts), "cut": event.is_cut},
    }
