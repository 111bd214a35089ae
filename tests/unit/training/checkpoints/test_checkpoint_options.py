"""Options of a script's checkpoints, by how it was started and by what it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, options_of_start

RUN = RunDir(Path("/runs/a"))


def started(**changes: Any) -> CheckpointOptions | None:
    fields = {"run_dir": "/runs/a", "seed": 1, "index": 0, "num_workers": 1, "target_kind": "script", "target": "a.py"}
    return options_of_start(Assignment(**{**fields, **changes}))


@pytest.mark.parametrize(
    ("changes", "resume"),
    [
        ({"resume": "auto"}, "auto"),
        ({"resume": "auto", "attempt": 1}, "auto"),
        ({"resume": "must"}, "must"),
        ({"max_restarts": 2}, "never"),  # the first start begins, and is kept for those to come
        ({"max_restarts": 2, "attempt": 1}, "auto"),
        ({"resume": "auto", "target_kind": "module"}, "auto"),
    ],
)
def test_a_script_that_may_have_to_go_on_is_kept(changes: dict[str, Any], resume: str) -> None:
    options = started(**changes)
    assert options is not None
    assert (options.resume, options.run, options.is_asked_for) == (resume, RUN, False)
    assert options.is_restart == (changes.get("attempt", 0) > 0 and "resume" not in changes)


@pytest.mark.parametrize(("every", "steps", "minutes"), [(None, None, 10.0), ("500", 500, None), ("2.5m", None, 2.5)])
def test_how_often_a_script_is_kept(every: str | None, steps: int | None, minutes: float | None) -> None:
    options = started(checkpoint_every=every, resume="auto")
    assert options is not None and (options.every_steps, options.every_minutes) == (steps, minutes)
    assert (started(checkpoint_every=every) is None) == (every is None)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resume": "auto", "target_kind": "config"},  # which keeps its run by itself
        {"resume": "auto", "recording": RecordingRequest("/tmp/x", 1, 1)},
    ],
)
def test_nothing_is_kept_unasked(changes: dict[str, Any]) -> None:
    assert started(**changes) is None


def test_nothing_is_kept_without_a_launcher() -> None:
    assert options_of_start(None) is None


def test_each_fit_has_a_folder_and_the_first_that_of_a_config() -> None:
    folders = [CheckpointOptions(RUN).folder(fit) for fit in range(3)]
    assert folders == [RUN.checkpoints_dir, RUN.checkpoints_dir / "fit-2", RUN.checkpoints_dir / "fit-3"]


@pytest.mark.parametrize(
    "options",
    [
        {"every_steps": 0},
        {"every_steps": 2.5},
        {"every_steps": True},
        {"every_minutes": -1.0},
        {"every_minutes": float("nan")},
        {"keep": 0},
        {"keep": None},
        {"keep": 1.5},
        {"resume": "yes"},
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        CheckpointOptions(RUN, **options)
