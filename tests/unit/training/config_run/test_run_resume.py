from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from tfdist.checkpoint import CheckpointSummary
from tfdist.config.training_sections import CheckpointConfig
from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.rundir import RunDir, create_run_dir
from tfdist.rundir.run_dir_creation import Resume
from tfdist.training.config_run import run_resume as module
from tfdist.training.config_run.run_resume import check_same_order, wanted_resume


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return create_run_dir(tmp_path / "r", name="n")


@pytest.mark.parametrize(
    ("resume", "attempt", "wanted"),
    [
        ("never", 0, "never"),
        ("auto", 0, "auto"),
        ("must", 0, "must"),
        ("never", 1, "auto"),  # restarted by the launcher
        ("must", 1, "must"),
    ],
)
def test_what_is_wanted(resume: Resume, attempt: int, wanted: str) -> None:
    assignment = Assignment("/r", 0, 0, 1, "config", "c.yaml", resume=resume, attempt=attempt)
    assert wanted_resume(assignment) == wanted


@pytest.mark.parametrize(("job", "goes_on"), [("this", True), ("another", False)])
def test_a_restart_goes_on_with_what_its_own_job_has_made(
    job: str, goes_on: bool, run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkpoint.directory that another run uses, too: an attempt that ended early has not refused it yet."""
    found = CheckpointSummary(1, 2, 6, 7, 4, 100, 1, 1, 0.0, job=job)
    checkpoints = SimpleNamespace(folder="elsewhere", latest=lambda: (found, "elsewhere/step-00000006"))
    monkeypatch.setattr(module, "CheckpointManager", lambda *_, **__: checkpoints)
    strategy = tf.distribute.get_strategy()
    session: Any = SimpleNamespace(run=run, strategy=strategy, restoring=contextlib.nullcontext, is_chief=True, seed=7)
    config: Any = SimpleNamespace(
        checkpoint=CheckpointConfig(directory="elsewhere"),
        data=SimpleNamespace(batch_size=4),
        fit=SimpleNamespace(epochs=3),
    )
    assignment = Assignment("/r", 0, 0, 1, "config", "c.yaml", attempt=1, job="this")
    if goes_on:
        assert module.find_run_start(session, assignment, config).resumed is found
    else:
        with pytest.raises(RunDirError, match="checkpoints of another run in elsewhere"):
            module.find_run_start(session, assignment, config)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 8}, "seed was 7. Expected the same, .* Received: 8. Resume with 7"),
        ({"batch_size": 64, "seed": 7}, "data.batch_size was 32"),
        ({"samples": 101}, "the number of samples in data.train was 100"),
        ({"order": {"shares": [50, 50]}}, r"the number of samples of each worker's share was \[60, 40\]"),
        ({"order": {"shuffle": False}}, "data.train.shuffle was True"),
        ({"order": {"steps_per_epoch": 5}}, "fit.steps_per_epoch was null. .* Received: 5. Resume with null"),
    ],
)
def test_another_order_of_samples_is_refused(given: dict[str, Any], message: str) -> None:
    summary = CheckpointSummary(1, 2, 6, 7, 32, 100, 1, 1, 0.0, order={"shares": [60, 40], "shuffle": True})
    check_same_order(summary, seed=7, batch_size=32, samples=100, order={"shares": [60, 40], "shuffle": True})
    check_same_order(summary, order={"lanes": 3})
    with pytest.raises(RunDirError, match=message):
        check_same_order(summary, **given)


def test_epochs_of_another_length_are_refused() -> None:
    order = {"steps_per_epoch": 20, "shuffle": True}
    summary = CheckpointSummary(1, 2, 6, 7, 32, 100, 1, 1, 0.0, order=order)
    check_same_order(summary, seed=7, batch_size=32)
    check_same_order(summary, order=order)
    for received in ({"steps_per_epoch": 10, "shuffle": True}, {"shuffle": True}):
        with pytest.raises(RunDirError, match="fit.steps_per_epoch was 20"):
            check_same_order(summary, order=received)
