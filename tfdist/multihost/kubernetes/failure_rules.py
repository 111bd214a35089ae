"""The exit codes of tfdist that are worth another start, in the words of Kubernetes."""

from __future__ import annotations

import signal
from typing import Any

from tfdist.errors import DataError, UsageError

WOULD_FAIL_AGAIN = sorted({UsageError.exit_code, DataError.exit_code})
ASKED_TO_STOP = 128 + signal.SIGTERM


def pod_failure_policy(container: str) -> dict[str, Any]:
    """The `podFailurePolicy` of a Job. The first rule that fits a pod decides; where none does, its failure counts.

    Args:
        container: In which tfdist runs.
    """
    return {
        "rules": [
            # Preempted, drained or evicted: no fault of the job's.
            # The status is the default, which Kubernetes before 1.35 wants to be told.
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": _codes(container, WOULD_FAIL_AGAIN)},
            # One pod was asked to stop, and with it all others stopped at the same step.
            {"action": "Ignore", "onExitCodes": _codes(container, [ASKED_TO_STOP])},
        ]
    }


def _codes(container: str, values: list[int]) -> dict[str, Any]:
    return {"containerName": container, "operator": "In", "values": values}


def jobset_failure_policy(max_restarts: int) -> dict[str, Any]:
    """The `failurePolicy` of a JobSet: all pods again, but for what would fail in the same way."""
    rule = {"name": "fails_the_same_way_again", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    # Recreated only when all old pods are gone: they must not meet, nor write, beside new ones.
    return {"maxRestarts": max_restarts, "restartStrategy": "BlockingRecreate", "rules": [rule]}
