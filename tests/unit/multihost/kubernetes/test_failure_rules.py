from __future__ import annotations

import pytest

from tfdist import errors
from tfdist.multihost.kubernetes.failure_rules import pod_failure_policy


def action(code: int, conditions: tuple[str, ...] = ()) -> str:
    """What Kubernetes does with a pod that failed, by the first rule that fits; Count where none does."""
    for rule in pod_failure_policy("worker")["rules"]:
        codes = rule.get("onExitCodes")
        if codes is None:
            assert rule["onPodConditions"]
            fits = any(condition["type"] in conditions for condition in rule["onPodConditions"])
        else:
            assert (codes["containerName"], codes["operator"]) == ("worker", "In")
            fits = code in codes["values"]
        if fits:
            return str(rule["action"])
    return "Count"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.UsageError, "FailJob"),
        (errors.ConfigError, "FailJob"),
        (errors.RunDirError, "FailJob"),
        (errors.DataError, "FailJob"),
        (errors.FormingError, "Count"),
        (errors.WorkerFailedError, "Count"),
        (errors.StoreError, "Count"),
    ],
)
def test_errors_of_tfdist(error: type[errors.TfdistError], expected: str) -> None:
    assert action(error.exit_code) == expected


@pytest.mark.parametrize(
    ("code", "conditions", "expected"),
    [
        (143, (), "Ignore"),  # all launchers end with it when one pod is asked to stop
        (137, (), "Count"),  # killed, by the kernel for its memory, say
        (137, ("DisruptionTarget",), "Ignore"),  # by Kubernetes, to make room
        (2, ("DisruptionTarget",), "Ignore"),
        (1, ("PodScheduled",), "Count"),
        (7, (), "Count"),  # the script's own
    ],
)
def test_other_ends(code: int, conditions: tuple[str, ...], expected: str) -> None:
    assert action(code, conditions) == expected
