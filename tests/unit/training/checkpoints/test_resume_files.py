"""The log of a run's resumes."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
from pathlib import Path
from typing import Any, BinaryIO

import keras
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


def begun(file: Path, **options: Any) -> keras.callbacks.CSVLogger:
    logger = keras.callbacks.CSVLogger(file, **options)
    logger.on_train_begin()
    return logger


def write(logger: keras.callbacks.CSVLogger, *epochs: int) -> None:
    for epoch in epochs:
        logger.on_epoch_end(epoch, {"loss": epoch / 4, "parts": [1.0, 2.0]})


def gone_on(file: Path, kept: list[int | None], epoch: int, *epochs: int, **options: Any) -> str:
    """The file after another training has gone on with `epoch` and written rows of `epochs`."""
    logger = keras.callbacks.CSVLogger(file, **options)
    resume_files.append([logger])
    logger.on_train_begin()
    resume_files.cut([logger], kept, epoch)
    write(logger, *epochs)
    logger.on_train_end()
    return file.read_text()


def whole(file: Path, *epochs: int, **options: Any) -> str:
    """The file of a training that nobody has killed."""
    logger = begun(file, **options)
    write(logger, *epochs)
    logger.on_train_end()
    return file.read_text()


@pytest.mark.parametrize("before", [[], [0], [0, 1, 2]])
@pytest.mark.parametrize("twice", [0, 1, 2])
@pytest.mark.parametrize("torn", ["", "7", "1,0.2", "1,0.25,\r"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_rows_of_epochs_that_are_trained_again_are_taken_off(
    tmp_path: Path, before: list[int], twice: int, torn: str, separator: str
) -> None:
    file, epoch = tmp_path / "log.csv", len(before)
    logger = begun(file, separator=separator)
    write(logger, *before)
    kept = resume_files.sizes([keras.callbacks.History(), logger])
    write(logger, *range(epoch, epoch + twice))
    logger.csv_file.write(torn)
    logger.on_train_end()
    wanted = whole(tmp_path / "whole.csv", *range(epoch + 3), separator=separator)
    assert gone_on(file, kept, epoch, *range(epoch, epoch + 3), separator=separator) == wanted


def test_rows_of_other_fits_stay(tmp_path: Path) -> None:
    """Both append to one file, and the second is killed in its first epoch, after it had written its row."""
    file = tmp_path / "log.csv"
    first = whole(file, 0, 1, 2)
    second = begun(file, append=True)
    kept = resume_files.sizes([second])
    write(second, 0)
    second.on_train_end()
    both = gone_on(file, kept, 0, 0, 1, append=True)
    assert both.startswith(first)
    assert [row.split(",")[0] for row in both.splitlines()] == ["epoch", "0", "1", "2", "0", "1"]


OTHERS = ["note: stopped here\n", "0,0.5,0.5\n", "epoch,loss\n0,1\n", "-1,2,3\n", "9" * 5000 + ",1\n"]


@pytest.mark.parametrize("more", OTHERS, ids=len)
def test_what_is_of_anything_else_stays(tmp_path: Path, more: str) -> None:
    file = tmp_path / "log.csv"
    logger = begun(file)
    write(logger, 0, 1)
    kept = resume_files.sizes([logger])
    logger.csv_file.write(more)
    logger.on_train_end()
    text = file.read_text()
    assert gone_on(file, kept, 2).startswith(text)


@pytest.mark.parametrize("kept", [[], [None], [10**9]])
def test_where_nothing_is_known_nothing_goes(tmp_path: Path, kept: list[int | None]) -> None:
    file = tmp_path / "log.csv"
    text = whole(file, 0, 1)
    assert gone_on(file, kept, 0) == text


def test_a_file_that_is_not_there_is_of_no_size(tmp_path: Path) -> None:
    absent = keras.callbacks.CSVLogger(tmp_path / "absent" / "log.csv")
    assert resume_files.sizes([absent, keras.callbacks.CSVLogger("gs://bucket/log.csv")]) == [None, None]


def test_a_file_that_cannot_be_read_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tfdist"):
        resume_files.cut([keras.callbacks.CSVLogger(tmp_path / "absent.csv")], [0], 4)
    assert "absent.csv may have the rows of epoch 5 twice" in caplog.text


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
