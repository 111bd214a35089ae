"""The log of a run's resumes."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tfdist.checkpoint import CheckpointSummary
from tfdist.rundir import RunDir
from tfdist.training.checkpoints import resume_files
from tfdist.training.checkpoints.resume_files import (
    change_of,
    note_resume,
    place_of,
    warn_of_another_teacher,
    warn_of_other_kernels,
)

SUMMARY = CheckpointSummary(
    epoch=2, step=4, total=54, seed=1, batch_size=8, samples=200, workers=2, replicas=4, time=0.0
)  # fmt: skip


def test_each_time_has_a_line_with_what_it_was_on(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    note_resume(run, SUMMARY, workers=3, replicas=6, attempt=1)
    note_resume(run, SUMMARY, workers=1, replicas=1, attempt=2, fit=1)
    first, second = map(json.loads, run.resumes_file.read_text().splitlines())
    assert first.pop("time") > 0
    assert first == {
        "attempt": 1,
        "fit": 0,
        "epoch": 2,
        "step": 4,
        "total": 54,
        "workers": 3,
        "replicas": 6,
        "workers_before": 2,
        "replicas_before": 4,
    }
    assert (second["attempt"], second["fit"], second["replicas"]) == (2, 1, 1)


def test_where_it_resumes_no_epoch_is_named_that_has_not_begun() -> None:
    assert place_of(SUMMARY) == "after step 54 (epoch 3, 4 batches done)"
    end = dataclasses.replace(SUMMARY, epoch=5, step=0, total=1250)
    assert place_of(end) == "after step 1,250 (epoch 5 done)"
    assert (SUMMARY.last_epoch, end.last_epoch) == (2, 4)
    assert dataclasses.replace(SUMMARY, epoch=0, step=0).last_epoch == 0


def test_a_disk_that_cannot_be_written_costs_the_line_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "tfdist"):
        note_resume(RunDir(tmp_path / "file" / "run"), SUMMARY, workers=1, replicas=1, attempt=0)
    assert "misses a resume" in caplog.text


def test_what_cannot_be_read_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunDir(tmp_path)
    note_resume(run, SUMMARY, workers=3, replicas=6, attempt=1)
    before = run.resumes_file.read_text()

    def fail(path: Path) -> BinaryIO:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "tfdist"):
        patch.setattr(resume_files, "open_regular", fail)
        note_resume(run, SUMMARY, workers=3, replicas=6, attempt=2)
    assert "misses a resume" in caplog.text
    assert run.resumes_file.read_text() == before


def test_a_log_of_somebody_elses_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A link to a device, which never ends, and bytes that are no text."""
    run = RunDir(tmp_path)
    for make in (lambda: run.resumes_file.symlink_to("/dev/zero"), lambda: run.resumes_file.write_bytes(b"\xff")):
        run.resumes_file.unlink(missing_ok=True)
        make()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tfdist"):
            note_resume(run, SUMMARY, workers=3, replicas=6, attempt=1)
        assert "misses a resume" in caplog.text
    assert run.resumes_file.read_bytes() == b"\xff"


def test_only_a_change_is_said() -> None:
    assert change_of(SUMMARY, 4) == ""
    assert change_of(SUMMARY, 1) == ", which was on 4 replicas"


@pytest.mark.parametrize(
    ("before", "now", "warns"),
    [
        ("onednn", "tensorflow", True),
        ("tensorflow", "onednn", True),
        ("onednn", "onednn", False),
        ("", "onednn", False),  # on GPUs, or by a version of tfdist that did not write them
        ("onednn", "", False),
    ],
)
def test_other_kernels_are_warned_of(before: str, now: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tfdist"):
        warn_of_other_kernels(dataclasses.replace(SUMMARY, kernels=before), now)
    assert (f"resume with --kernels {before}." in caplog.text) == warns
    assert bool(caplog.records) == warns


@pytest.mark.parametrize(
    ("before", "now", "warns"), [("a1", "b2", True), ("a1", "a1", False), ("", "b2", False), ("a1", "", False)]
)
def test_another_teacher_is_warned_of(before: str, now: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tfdist"):
        warn_of_another_teacher(dataclasses.replace(SUMMARY, teacher=before), now)
    assert ("resume with the teacher that it began with" in caplog.text) == warns == bool(caplog.records)
