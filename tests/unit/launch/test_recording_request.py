from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.recording_request import RecordingRequest

REQUEST = RecordingRequest("/r", steps=3, replicas=2, precision="float32", perturbed=True)


def test_it_goes_through_the_environment() -> None:
    assignment = Assignment("/run", 7, 0, 1, "script", "train.py", recording=REQUEST)
    assert Assignment.from_environ(assignment.to_environ({})) == assignment


def test_each_worker_has_a_file_of_its_own() -> None:
    assert REQUEST.file(1) == Path("/r/worker-1.npz")


@pytest.mark.parametrize("changed", [{"steps": 0}, {"replicas": 0}])
def test_it_checks_itself(changed: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(REQUEST, **changed)
