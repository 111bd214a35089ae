from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist.rundir import directory_exchange
from tfdist.rundir.directory_exchange import replace_directory


class Killed(BaseException):
    """Stands for SIGKILL."""


def two(folder: Path) -> tuple[Path, Path]:
    """A directory that was made, in a temporary one, and the earlier one that it is to replace."""
    made, target = folder / ".made.tmp" / "model", folder / "model"
    for path, content in ((made, "new"), (target, "old")):
        path.mkdir(parents=True)
        (path / "content").write_text(content)
    return made, target


def content(path: Path) -> str:
    return (path / "content").read_text()


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that exchanges no names."""

    def refuse(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(directory_exchange, "_exchange", refuse)


def test_one_takes_the_others_place(tmp_path: Path) -> None:
    made, target = two(tmp_path)
    replace_directory(made, target)
    assert (content(target), content(made)) == ("new", "old")


@pytest.mark.usefixtures("no_exchange")
def test_one_takes_the_others_place_where_names_cannot_be_exchanged(tmp_path: Path) -> None:
    made, target = two(tmp_path)
    replace_directory(made, target)
    assert (content(target), content(made)) == ("new", "old")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".made.tmp", "model"]


def renaming(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Calls `act` with its number before each rename."""
    original, calls = os.rename, 0

    def rename(*where: Any) -> None:
        nonlocal calls
        calls += 1
        act(calls)
        original(*where)

    monkeypatch.setattr(os, "rename", rename)


def test_names_are_exchanged_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, target = two(tmp_path)
    try:
        directory_exchange._exchange(made, target)
    except OSError as error:
        pytest.skip(f"this system exchanges no names: {error}")

    def refuse(number: int) -> None:
        raise AssertionError("a rename of its own")

    renaming(monkeypatch, refuse)
    replace_directory(made, target)
    assert (content(target), content(made)) == ("old", "new")


@pytest.mark.usefixtures("no_exchange")
@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_writer_killed_between_two_renames_loses_nothing(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, target = two(tmp_path)

    def kill(number: int) -> None:
        if number == last:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        renaming(patch, kill)
        replace_directory(made, target)
    # What is in a temporary directory is removed by the next writer.
    kept = {content(path) for path in tmp_path.iterdir() if path != made.parent}
    assert "old" in kept


@pytest.mark.usefixtures("no_exchange")
@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_leaves_both_as_they_were(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, target = two(tmp_path)

    def fail(number: int) -> None:
        if number == failing:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch, pytest.raises(PermissionError):
        renaming(patch, fail)
        replace_directory(made, target)
    assert (content(target), content(made)) == ("old", "new")


def test_an_error_that_another_way_would_not_mend_is_raised(tmp_path: Path) -> None:
    made, target = two(tmp_path)
    with pytest.raises(FileNotFoundError):
        replace_directory(made.with_name("absent"), target)
    assert (content(target), content(made)) == ("old", "new")
