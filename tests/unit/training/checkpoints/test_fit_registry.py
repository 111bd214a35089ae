"""Which fits of a script are saved, and which resume from what: with made-up checkpoints."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tfdist.checkpoint import CheckpointSummary
from tfdist.errors import RunDirError, UsageError
from tfdist.rundir import RunDir
from tfdist.training.checkpoints import fit_registry as module
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest
from tfdist.training.checkpoints.fit_checkpoint_callback import FitCheckpointCallback, RegisteredFit
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.supervision.stop_requests import StopRequests, WorkerStopped

JOB = "this job"


def summary(mark: str, after: str, total: int = 10, job: str = JOB) -> CheckpointSummary:
    record = {"fit": {"mark": mark, "after": after}}
    return CheckpointSummary(1, 2, total, 1, 8, 40, 1, 1, 0.0, record=record, job=job)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, CheckpointSummary]:
    """By the folder's name, the latest checkpoint in it."""
    there: dict[str, CheckpointSummary] = {}

    class Checkpoints:
        def __init__(self, folder: Path, *_: Any, **__: Any) -> None:
            self.folder = folder

        def latest(self) -> tuple[CheckpointSummary, str] | None:
            return (there[self.folder.name], str(self.folder)) if self.folder.name in there else None

    monkeypatch.setattr(module, "CheckpointManager", Checkpoints)
    return there


def registry_of(tmp_path: Path, resume: Any = "auto", **options: Any) -> FitRegistry:
    return FitRegistry(
        tf.distribute.get_strategy(), CheckpointOptions(RunDir(tmp_path), resume=resume, **options), seed=1, job=JOB
    )


def next_fit(registry: FitRegistry, given: Any = ()) -> RegisteredFit:
    (callback,) = registry.callbacks_for(given)
    assert isinstance(callback, FitCheckpointCallback)
    return callback.fit


def resumed(registry: FitRegistry, given: Any = ()) -> CheckpointSummary | None:
    """The checkpoint that the next fit resumes from."""
    return next_fit(registry, given).resumed


def test_fits_resume_along_the_chain_of_their_marks(tmp_path: Path, found: dict[str, CheckpointSummary]) -> None:
    found |= {"checkpoints": summary("a", ""), "fit-2": summary("b", "a"), "fit-3": summary("c", "of another past")}
    registry = registry_of(tmp_path)
    assert resumed(registry) is found["checkpoints"]
    registry.note_end("a", 10)
    assert resumed(registry) is found["fit-2"]
    registry.note_end("b", 10)
    assert resumed(registry) is None
    lines = RunDir(tmp_path).resumes_file.read_text().splitlines()
    assert len(lines) == 2


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.usefixtures("found")
def test_a_later_start_without_a_checkpoint_says_that_it_begins_anew(
    attempt: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = CheckpointOptions(RunDir(tmp_path), resume="auto")
    registry = FitRegistry(tf.distribute.get_strategy(), options, seed=1, job=JOB, attempt=attempt)
    assert resumed(registry) is None
    assert capsys.readouterr().err.count(f"no checkpoint yet in {tmp_path / 'checkpoints'}: the training") == attempt


def test_after_a_fit_that_has_trained_all_begin_anew(tmp_path: Path, found: dict[str, CheckpointSummary]) -> None:
    found |= {"checkpoints": summary("a", ""), "fit-2": summary("b", "a")}
    registry = registry_of(tmp_path)
    assert resumed(registry) is found["checkpoints"]
    registry.note_training()
    registry.note_end("a", 10)
    assert resumed(registry) is None


def test_each_directory_counts_its_own(tmp_path: Path, found: dict[str, CheckpointSummary]) -> None:
    found |= {"checkpoints": summary("a", "")}
    registry = registry_of(tmp_path / "run")
    other = CheckpointRequest(CheckpointOptions(RunDir(tmp_path / "other"), is_asked_for=True, overwrite=True), None)
    first, elsewhere, second = (next_fit(registry, given) for given in ([], [other], []))
    assert (first.number, elsewhere.number, second.number) == (0, 0, 1)
    assert elsewhere.resumed is None


@pytest.mark.parametrize(
    ("resume", "options", "there", "message"),
    [
        ("must", {}, {}, "nothing to resume"),
        ("never", {}, {"checkpoints": summary("a", "")}, "of an earlier training"),
        ("auto", {"is_restart": True}, {"checkpoints": summary("a", "", job="another")}, "of an earlier training"),
        ("auto", {}, {"checkpoints": CheckpointSummary(1, 2, 10, 1, 8, 40, 1, 1, 0.0)}, "of a config's run"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, found: dict[str, CheckpointSummary], resume: str, options: Any, there: Any, message: str
) -> None:
    found |= there
    with pytest.raises(RunDirError, match=message) as caught:
        registry_of(tmp_path, resume, **options).callbacks_for([])
    assert caught.value.exit_code == 2


def test_a_restart_resumes_only_what_its_own_job_has_saved(
    tmp_path: Path, found: dict[str, CheckpointSummary]
) -> None:
    """A job that was killed before its first fit has not replaced yet what was there before it."""
    found |= {"checkpoints": summary("a", "", job="another")}
    options = {"is_asked_for": True, "overwrite": True, "is_restart": True}
    assert resumed(registry_of(tmp_path, **options)) is None
    found |= {"checkpoints": summary("a", "")}
    assert resumed(registry_of(tmp_path, **options)) is found["checkpoints"]


def test_must_asks_for_the_first_fit_alone(tmp_path: Path, found: dict[str, CheckpointSummary]) -> None:
    found |= {"checkpoints": summary("a", "")}
    registry = registry_of(tmp_path, "must")
    resumed(registry)
    registry.note_end("a", 10)
    assert resumed(registry) is None


def test_all_workers_must_be_given_the_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "worker_count", lambda strategy: 2)
    monkeypatch.setattr(module, "gather_objects", lambda value, strategy: [value, False])
    registry = FitRegistry(tf.distribute.get_strategy(), None)
    assert registry.callbacks_for([]) == []
    with pytest.raises(UsageError, match="a fit without it on worker 1"):
        registry.callbacks_for([CheckpointRequest(CheckpointOptions(RunDir(tmp_path), is_asked_for=True), None)])


@pytest.mark.usefixtures("found")
def test_keras_own_backup_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert registry_of(tmp_path).callbacks_for([backup]) == []
    assert "left to it" in caplog.text
    with pytest.raises(UsageError, match="Expected one of them"):
        registry_of(tmp_path).callbacks_for(
            [backup, CheckpointRequest(CheckpointOptions(RunDir(tmp_path), is_asked_for=True), None)]
        )


def test_logs_that_keras_would_replace_are_appended_to(tmp_path: Path, found: dict[str, CheckpointSummary]) -> None:
    logger = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    appending = keras.callbacks.CSVLogger(tmp_path / "all.csv", append=True)
    registry = registry_of(tmp_path)
    found |= {"checkpoints": summary("a", "")}
    resumed(registry, [logger, appending])
    assert logger.append
    registry.note_end("a", 10)
    resumed(registry, [logger, appending])  # the second fit has nothing to resume
    assert not logger.append
    assert appending.append


@pytest.mark.usefixtures("found")
def test_a_script_without_a_fit_is_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tfdist"):
        registry = registry_of(tmp_path)
        resumed(registry)
        registry.warn_if_nothing_was_saved()
        FitRegistry(tf.distribute.get_strategy(), None).warn_if_nothing_was_saved()
        assert caplog.text == ""
        registry_of(tmp_path).warn_if_nothing_was_saved()
    assert "Nothing of this script was saved" in caplog.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (None, r"nothing was saved \(no checkpoints: start with --resume auto, or give fit tfdist.callbacks\(\)\)"),
        (CheckpointOptions(RunDir(Path("r"))), r"nothing was saved \(this fit is left to its BackupAndRestore\)"),
    ],
)
def test_a_stop_says_why_it_has_saved_nothing(
    options: CheckpointOptions | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = StopRequests(grace=20)
    registry = FitRegistry(tf.distribute.get_strategy(), options, stop_requests=requests)
    assert registry.callbacks_for([keras.callbacks.BackupAndRestore("b")]) == []
    requests.hold()
    requests.stop(after=0, code=130)
    with requests.during_fit(), pytest.raises(WorkerStopped):
        requests.begin_batches(1)
    assert re.fullmatch(f"stopped between two batches; {why}\n", capsys.readouterr().out)
