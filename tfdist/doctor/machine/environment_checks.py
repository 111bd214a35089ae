"""Checks of the environment: who takes part, and the variables that decide something."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import Check, fail, ok, warn
from tfdist.errors import ClusterError
from tfdist.launch.worker.variable_objections import objections

_SHOWN = 200


def check_cluster(found: Membership | ClusterError) -> Check:
    """The cluster that `tfdist train` would form with the same options."""
    if isinstance(found, ClusterError):
        return fail("cluster", str(found), "Correct it, or say it with --workers LIST.", found.exit_code)
    if found.cluster is None:
        return ok("cluster", found.source)
    here = ", ".join(map(str, found.local))
    return ok("cluster", f"{found.num_workers} workers, from {found.source}; worker(s) {here} here: {found.cluster}")


def check_variables(environ: Mapping[str, str]) -> list[Check]:
    """Reports the variables that affect a run, and those whose values would break it.

    Args:
        environ: Of `tfdist.cluster.environment_variables.run_variables`.
    """
    checks = [ok("environment", _listed(environ) if environ else "no variable that decides anything about a run")]
    checks += [fail(name, text, f"unset {variable}") for name, variable, text in objections(environ)]
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        text = f"CUDA_VISIBLE_DEVICES={environ['CUDA_VISIBLE_DEVICES']!r} hides every GPU"
        checks.append(warn("hidden GPUs", text, "unset CUDA_VISIBLE_DEVICES, unless that is meant"))
    return checks


def _listed(environ: Mapping[str, str]) -> str:
    return "\n".join(
        f"{name}={value if len(value) <= _SHOWN else value[:_SHOWN] + '...'}" for name, value in environ.items()
    )
