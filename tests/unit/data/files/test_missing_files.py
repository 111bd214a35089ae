from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tfdist.config.load import build_config, read_config
from tfdist.data.files.missing_files import check_files
from tfdist.errors import DataError

CONFIG = """\
name: digits
model: {build: tfdist.models.mlp}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 128, train: %s}
"""


def check(folder: Path, train: str) -> None:
    config = folder / "a.yaml"
    config.write_text(CONFIG % train)
    document = read_config(config)
    check_files(build_config(document), document)


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        ("{format: npz, path: a.npz, split: train}", r"data\.train\.path: Cannot read /.*/a\.npz: No such file"),
        ("{format: images, path: none, size: [8, 8]}", r"data\.train\.path: Cannot read /.*/none: No such file"),
        ("{format: csv, files: a.csv, label: y}", r"data\.train\.files: No such file: /.*/a\.csv"),
        ("{format: text, files: ['here.txt', 'a-*.txt']}", r"data\.train\.files: No file matches /.*/a-\*\.txt"),
        # A pattern is one for lists of files alone.
        ("{format: npz, path: 'h*.txt', split: train}", r"Cannot read /.*/h\*\.txt: No such file"),
    ],
)
def test_what_is_not_there_is_named_with_its_key(train: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "here.txt").touch()
    with pytest.raises(DataError, match=expected):
        check(tmp_path, train)


@pytest.mark.parametrize(
    "train",
    [
        "{format: npz, path: here, split: train}",  # what is in it is the workers' to say
        "{format: images, path: folder, size: [8, 8]}",
        "{format: tfrecord, files: 'h*', parse: a.b}",
        "{format: tfrecord, files: 'gs://bucket/none-*', parse: a.b}",
        "{format: generator, function: no.such}",
        "{format: npz, path: pipe, split: train}",
    ],
)
def test_what_is_there_passes_and_so_does_what_only_workers_can_see(train: str, tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    check(tmp_path, train)


def test_both_are_named_with_their_lines(tmp_path: Path) -> None:
    train = "{format: npz, path: none, split: train}"
    with pytest.raises(DataError) as caught:
        check(tmp_path, f"{train}, validation: {train.replace('none', 'neither')}")
    first, *lines = str(caught.value).splitlines()
    config = tmp_path / "a.yaml"
    assert first == f"{config} has 2 mistakes:"
    keys = ("data.train.path", "data.validation.path")
    assert [line.partition(" Cannot read")[0] for line in lines] == [f"  {config}:4: {key}:" for key in keys]


def test_the_validation_data_is_looked_for_too(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    train = "{format: npz, path: here, split: train}"
    with pytest.raises(DataError, match=r"data\.validation\.path: Cannot read"):
        check(tmp_path, f"{train}, validation: {train.replace('here', 'none')}")


def test_a_disk_that_does_not_answer_is_left_to_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Any, touch: Any) -> Any:
        raise RunDirError("The disk does not answer.")

    from tfdist.errors import RunDirError
    from tfdist.rundir.bounded_disk import BoundedDisk

    monkeypatch.setattr(BoundedDisk, "call", silent)
    check(tmp_path, "{format: npz, path: none, split: train}")
