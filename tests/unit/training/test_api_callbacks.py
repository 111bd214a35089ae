"""Where `tfdist.callbacks` saves, and what it resumes, by how the process was started."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_requests import RecordingRequest, TraceRequest
from tfdist.training import api
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest
from tfdist.training.run_record_callback import RunRecordCallback

OWN = "of/the/job"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a script asks for in a worker with an assignment like this; None for one without a launcher."""
    monkeypatch.chdir(tmp_path)

    def ask(assigned: dict[str, Any] | None, *arguments: Any, **options: Any) -> CheckpointOptions:
        fields = {"run_dir": OWN, "seed": 1, "index": 0, "num_workers": 1, "target_kind": "script", "target": "a.py"}
        assignment = None if assigned is None else Assignment(**{**fields, **assigned})
        monkeypatch.setattr(api.session, "current", lambda: SimpleNamespace(is_chief=True))
        monkeypatch.setattr(Assignment, "from_environ", lambda: assignment)
        record, request = api.callbacks(*arguments, **options)
        assert isinstance(record, RunRecordCallback) and isinstance(request, CheckpointRequest)
        assert request.options.run.path.is_dir()
        return request.options

    return ask


@pytest.mark.parametrize(
    ("assigned", "arguments", "place"),
    [
        ({}, (), OWN),
        ({}, ("elsewhere",), "elsewhere"),
        (None, ("elsewhere",), "elsewhere"),
        # A verification leaves the user's own run alone.
        ({"trace": TraceRequest("traces")}, ("elsewhere",), OWN),
        ({"recording": RecordingRequest("recordings", 3)}, ("elsewhere",), OWN),
    ],
)
def test_where_it_is_kept(asked: Any, assigned: Any, arguments: tuple[str, ...], place: str, tmp_path: Path) -> None:
    found = asked(assigned, *arguments)
    assert (found.run.path, found.is_asked_for) == (tmp_path / place, True)


@pytest.mark.parametrize(
    ("assigned", "options", "resume", "is_restart"),
    [
        (None, {}, "never", False),
        (None, {"resume": "auto"}, "auto", False),
        ({}, {}, "never", False),
        ({"resume": "must"}, {}, "must", False),
        ({"attempt": 2}, {}, "auto", True),
        # It was asked for, and not just that the job goes on.
        ({"attempt": 2}, {"resume": "auto"}, "auto", False),
        ({"attempt": 2, "resume": "auto"}, {}, "auto", False),
        ({"attempt": 2}, {"resume": "never"}, "never", False),
    ],
)
def test_what_it_goes_on_with(asked: Any, assigned: Any, options: Any, resume: str, is_restart: bool) -> None:
    found = asked(assigned, "elsewhere", **options)
    assert (found.resume, found.is_restart) == (resume, is_restart)


def test_without_a_launcher_it_must_be_told_where(asked: Any) -> None:
    with pytest.raises(UsageError, match="Give it one"):
        asked(None)
