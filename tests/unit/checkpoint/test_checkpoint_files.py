"""A writer may be ended at any byte, and a file damaged at any: what was whole before is found."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.disks import files_of_at_most
from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.checkpoint_files import MARKER, remove, remove_unfinished, stored, writing
from tfdist.errors import RunDirError

CONTENT = {"model.weights.h5": b"weights" * 9, "replicas.npz": b"rows", "summary.json": b"{}"}


class Killed(BaseException):
    """Stands for SIGKILL."""


def write(folder: Path, step: int) -> None:
    with writing(folder, step) as draft:
        for name, content in CONTENT.items():
            draft.add(name, content)


def whole(folder: Path) -> list[str]:
    return [entry.path.name for entry in stored(folder) if entry.fault() is None]


def test_the_latest_comes_first(tmp_path: Path) -> None:
    for step in (5, 100, 20, 20):
        write(tmp_path, step)
    assert whole(tmp_path) == ["step-00000100", "step-00000020.1", "step-00000020", "step-00000005"]
    assert {entry.name for entry in (tmp_path / "step-00000005").iterdir()} == {*CONTENT, MARKER}


@pytest.mark.parametrize("removed", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_one_more_of_a_step_takes_no_name_that_is_taken_and_is_the_latest(
    removed: tuple[int, ...], tmp_path: Path
) -> None:
    for _ in range(3):
        write(tmp_path, 20)
    left = {entry.number: entry for entry in stored(tmp_path)}
    for number in removed:
        remove(left.pop(number))
    write(tmp_path, 20)
    latest = max(left, default=-1) + 1
    assert whole(tmp_path) == [f"step-00000020.{latest}" if latest else "step-00000020"] + [
        left[number].path.name for number in sorted(left, reverse=True)
    ]


def test_the_disk_has_all_of_it_before_it_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power, too: each name and each byte is flushed before what relies on it is done."""
    done: list[str] = []
    flush, rename, replace = os.fsync, os.rename, os.replace

    def named(path: Any) -> str:
        name = Path(path).name
        return "beside" if name.startswith(".step-") else "new marker" if name.startswith(".checkpoint.") else name

    def fsync(descriptor: int) -> None:
        done.append(named(os.readlink(f"/proc/self/fd/{descriptor}")))
        flush(descriptor)

    def renamed(move: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def moved(source: Any, target: Any) -> None:
            done.append(f"{named(source)} to {named(target)}")
            move(source, target)

        return moved

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed(rename))
    monkeypatch.setattr(os, "replace", renamed(replace))
    write(tmp_path / "run", 5)
    assert done == [
        *CONTENT,
        "beside",
        "beside to step-00000005",
        "run",
        "new marker",
        "new marker to checkpoint.json",
        "step-00000005",
    ]


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "step-x").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert stored(tmp_path) == stored(tmp_path / "absent") == []


@pytest.mark.parametrize("name", [*CONTENT, MARKER])
def test_every_truncation_is_noticed(name: str, tmp_path: Path) -> None:
    write(tmp_path, 5)
    write(tmp_path, 10)
    file = tmp_path / "step-00000010" / name
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        if size == len(content) - 1 and content.endswith(b"\n"):
            continue  # the marker's last line break says nothing
        fault = stored(tmp_path)[0].fault()
        assert fault is not None and name in fault
        assert whole(tmp_path) == ["step-00000005"]
    file.unlink()
    assert name in str(stored(tmp_path)[0].fault())


@pytest.mark.parametrize("name", CONTENT)
def test_every_flipped_byte_is_noticed(name: str, tmp_path: Path) -> None:
    write(tmp_path, 5)
    file = tmp_path / "step-00000005" / name
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert f"checksum of {name}" in str(stored(tmp_path)[0].fault())


@pytest.mark.parametrize(("called", "raising"), [("listdir", errno.EACCES), ("open", errno.ESTALE)])
def test_what_cannot_be_reached_is_neither_absent_nor_damaged(
    called: str, raising: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 5)

    def fail(path: Any, *_: Any, **__: Any) -> Any:
        raise OSError(raising, os.strerror(raising), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, called, fail)
        if called == "listdir":
            patch.setattr(os, "scandir", fail)  # By which Python lists from 3.13 on.
        with pytest.raises(RunDirError, match=f"out of reach: {os.strerror(raising)}"):
            whole(tmp_path)
    assert whole(tmp_path) == ["step-00000005"]


def test_a_file_that_the_disk_cannot_read_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 5)

    def fail(path: Any, *_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        fault = stored(tmp_path)[0].fault()
    assert fault == f"{MARKER} cannot be read: {os.strerror(errno.EIO)}"


CALLS = ("fsync", "rename", "replace", "mkdir")


def count_calls(folder: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> int:
    """Writes step 10, calling `act` before each system call that matters; returns how many there were."""
    calls = 0

    def told_of(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            act(calls)
            return original(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, told_of(getattr(os, name)))
        write(folder, 10)
    return calls


def test_a_writer_killed_at_any_call_leaves_the_last_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "counted", 5)
    calls = count_calls(tmp_path / "counted", monkeypatch, lambda number: None)
    assert calls >= 8
    for last in range(1, calls + 1):
        folder = tmp_path / str(last)
        write(folder, 5)

        def kill(number: int, last: int = last) -> None:
            if number == last:
                raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
            patch.setattr(Path, "unlink", lambda *args, **kwargs: None)
            count_calls(folder, monkeypatch, kill)
        assert whole(folder)[-1] == "step-00000005"
        remove_unfinished(folder)
        assert sorted(entry.name for entry in folder.iterdir()) == sorted(whole(folder))
        write(folder, 10)
        assert whole(folder)[0].startswith("step-00000010")


@pytest.mark.parametrize("failing", range(1, 9))
def test_a_full_disk_is_an_error_that_leaves_nothing(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 5)

    def fill(number: int) -> None:
        if number == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RunDirError, match="The disk is full"):
        count_calls(tmp_path, monkeypatch, fill)
    assert [entry.name for entry in tmp_path.iterdir()] == whole(tmp_path) == ["step-00000005"]


def test_a_write_that_fails_at_any_byte_leaves_the_last_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of them say nothing more here
    write(tmp_path, 5)
    longest = max(file.stat().st_size for file in (tmp_path / "step-00000005").iterdir())
    all_of_content = max(map(len, CONTENT.values()))
    for size in (*range(all_of_content), *range(all_of_content, longest, 9), longest - 1):
        with pytest.raises(RunDirError, match="could not be written"), files_of_at_most(size):
            write(tmp_path, 10)
        assert [entry.name for entry in tmp_path.iterdir()] == whole(tmp_path) == ["step-00000005"]
    with files_of_at_most(longest + 1):  # the step's number has one digit more, the digests as many
        write(tmp_path, 10)
    assert whole(tmp_path) == ["step-00000010", "step-00000005"]


def test_one_is_removed_marker_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 5)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files.shutil, "rmtree", lambda *args, **kwargs: None)
        remove(stored(tmp_path)[0])
    assert not stored(tmp_path)[0].is_marked
    remove(stored(tmp_path)[0])
    assert stored(tmp_path) == []
