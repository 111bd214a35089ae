from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist.rundir.atomic_files import replacing
from tfdist.rundir.temp_names import remove_abandoned, remove_all, temp_path

WRITE = """
import sys
from pathlib import Path
from tfdist.rundir.temp_names import temp_path

path = temp_path(Path(sys.argv[1]))
path.mkdir() if sys.argv[2] == "directory" else path.write_text("half")
print(path.name, flush=True)
input()
"""


class Writer:
    """A process that is writing a file or a directory."""

    def __init__(self, target: Path, kind: str) -> None:
        command = [sys.executable, "-c", WRITE, target, kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        name = self.process.stdout.readline().strip()
        assert name, "it ended before it wrote"
        self.path = target.parent / name
        assert self.path.exists()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["file", "directory"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "my.model.keras", request.param)
    yield writer
    writer.kill()


def test_files_of_a_killed_writer_are_removed(writer: Writer, tmp_path: Path) -> None:
    writer.kill()
    remove_abandoned(tmp_path / "other.keras")
    remove_abandoned(tmp_path / "my.model.h5")
    assert writer.path.exists()
    remove_abandoned(tmp_path / "my.model.keras")
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_running_writer_stay(writer: Writer, tmp_path: Path) -> None:
    remove_abandoned(tmp_path / "my.model.keras")
    assert writer.path.exists()


def test_files_of_another_machine_stay(writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.kill()
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    remove_abandoned(tmp_path / "my.model.keras")
    assert writer.path.exists()


def test_another_process_with_the_same_pid(tmp_path: Path) -> None:
    target = tmp_path / "model.keras"
    own = temp_path(target)
    number = f".{os.getpid()}-"
    before = own.name.partition(number)
    earlier = tmp_path / f"{before[0]}{number}1-{before[2].rpartition('-')[2]}"
    for path in (own, earlier):
        path.write_text("half")
    remove_abandoned(target)
    assert list(tmp_path.iterdir()) == [own]


def test_a_file_that_cannot_be_removed_does_not_keep_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model.keras"
    own = temp_path(target).name
    earlier = {tmp_path / re.sub(rf"{os.getpid()}-\d+", f"{os.getpid()}-{start}", own) for start in (1, 2, 3)}
    for path in earlier:
        path.write_text("half")
    stays, *_ = tmp_path.iterdir()  # whichever is first
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == stays:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    remove_abandoned(target)
    assert list(tmp_path.iterdir()) == [stays]


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    names = [".model.tmp.keras", ".model.0123abcd.tmp.keras", "model.keras", ".model.keras", ".modelx.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    remove_abandoned(tmp_path / "model.keras")
    remove_all([tmp_path, tmp_path / "absent"])
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_remove_all(writer: Writer, tmp_path: Path) -> None:
    remove_all([tmp_path])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5", "folder", ".hidden", "m" * 150 + ".keras"])
def test_names_keep_the_suffix_and_are_short_enough(name: str, tmp_path: Path) -> None:
    path = temp_path(tmp_path / name)
    assert path.suffix == ((tmp_path / name).suffix or ".tmp")
    path.write_text("half")


def test_the_next_writer_removes_files_of_a_killed_one(writer: Writer, tmp_path: Path) -> None:
    writer.kill()
    with replacing(tmp_path / "my.model.keras") as temporary:
        temporary.write_text("whole")
    assert os.listdir(tmp_path) == ["my.model.keras"]
