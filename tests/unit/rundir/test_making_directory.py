"""A directory is whole or not there, whatever ends its writer."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir.directory_exchange import making_directory


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_directory(tmp_path: Path) -> None:
    with making_directory(tmp_path / "new", named_by="--output") as temporary:
        (temporary / "a").write_text("1")
        assert names(tmp_path) == [temporary.name] and temporary.name.startswith(".")
    assert names(tmp_path) == ["new"] and (tmp_path / "new" / "a").read_text() == "1"


def test_one_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "b").write_text("2")
    with making_directory(tmp_path / "old", named_by="--output") as temporary:
        (temporary / "a").write_text("1")
        assert names(tmp_path / "old") == ["b"]
    assert names(tmp_path) == ["old"] and names(tmp_path / "old") == ["a"]


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()])
def test_an_error_leaves_all_as_it_was(error: BaseException, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "b").write_text("2")
    with (
        pytest.raises(type(error)),
        making_directory(tmp_path / "old", named_by="--output") as temporary,
    ):
        (temporary / "a").write_text("1")
        raise error
    assert names(tmp_path) == ["old"] and names(tmp_path / "old") == ["b"]


def test_a_full_disk(tmp_path: Path) -> None:
    with (
        pytest.raises(RunDirError, match=r"The disk is full: .*/new could not be written.* choose a --output on"),
        making_directory(tmp_path / "new", named_by="--output"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert names(tmp_path) == []
