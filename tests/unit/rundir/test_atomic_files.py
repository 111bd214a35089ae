from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.disks import small_disk
from tfdist.errors import RunDirError
from tfdist.rundir.atomic_files import replacing, write_bytes, write_json, write_text


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_writes_the_whole_content(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a.bin", b"\x00\x01")
    write_text(tmp_path / "a.txt", "grün\n")
    write_json(tmp_path / "a.json", {"loss": [1.5, 0.5]})
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\x01"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grün\n"
    assert (tmp_path / "a.json").read_text() == '{\n  "loss": [\n    1.5,\n    0.5\n  ]\n}\n'
    assert names(tmp_path) == ["a.bin", "a.json", "a.txt"]


@pytest.mark.parametrize("durable", [True, False])
def test_old_content_stays_until_the_block_ends(tmp_path: Path, durable: bool) -> None:
    target = tmp_path / "model.keras"
    target.write_text("old")
    with replacing(target, durable=durable) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert temporary.parent == target.parent
        assert temporary.suffix == ".keras"  # Keras refuses any other
    assert target.read_text() == "new"
    assert names(tmp_path) == ["model.keras"]


@pytest.mark.parametrize("error", [ValueError("a layer that cannot be saved"), KeyboardInterrupt()])
def test_an_error_in_the_block_passes_and_leaves_the_old_content(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(type(error)) as raised, replacing(target) as temporary:
        temporary.write_text("half")
        raise error
    assert raised.value is error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        OSError("[Errno 28] Unable to write data (error message = 'No space left on device')"),  # h5py: no errno
        RuntimeError("ResourceExhausted: x.tmp; No space left on device"),  # TensorFlow
    ],
)
def test_a_full_disk_is_named(tmp_path: Path, error: Exception) -> None:
    target = tmp_path / "model.keras"
    target.write_text("old")
    with pytest.raises(RunDirError, match="disk is full.*model.keras.*Free some space"), replacing(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["model.keras"]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    target = tmp_path / "gone" / "a.html"
    with pytest.raises(RunDirError) as raised:
        write_text(target, "text", named_by="--html")
    assert str(raised.value) == (
        f"{target} could not be written: there is no directory {tmp_path}/gone. Expected one that exists. Received: "
        f"{target}. Make the directory, or choose another --html."
    )


@pytest.mark.parametrize("said", ["", "Unable to open {} (h5py)"])
def test_no_error_has_the_temporary_name(tmp_path: Path, said: str) -> None:
    target = tmp_path / "a.weights.h5"
    target.mkdir()  # no file takes its place
    with pytest.raises(RunDirError, match=re.escape(f"{target}")) as raised, replacing(target) as temporary:
        if said:
            raise OSError(said.format(temporary))
        temporary.write_text("text")
    assert ".tmp" not in str(raised.value)
    assert str(raised.value).count(str(target)) == 2
    assert names(tmp_path) == ["a.weights.h5"]


def test_a_failing_fsync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunDirError, match="disk is full"):
        write_text(tmp_path / "a.txt", "text")
    assert names(tmp_path) == []


def test_a_file_system_that_cannot_sync_directories_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def refuse_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=r"gone/a.txt could not be written.*--run-dir"):
        write_text(tmp_path / "gone" / "a.txt", "text")


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    """The group could not read temporary files with the permissions that tempfile gives them."""
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    with small_disk(tmp_path / "tiny", "64k") as place:
        yield place


def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    write_text(tiny_disk / "model.keras", "old")
    with pytest.raises(RunDirError, match="disk is full"):
        write_bytes(tiny_disk / "model.keras", b"x" * 100_000)
    assert (tiny_disk / "model.keras").read_text() == "old"
    assert names(tiny_disk) == ["model.keras"]
