"""The files of CSVLoggers after a kill, as Keras writes them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import keras
import pytest

from tfdist.training.checkpoints import resume_files


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
