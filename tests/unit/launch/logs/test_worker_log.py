from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tfdist.launch.logs.worker_log import WorkerLog

OUT, ERR = 1, 2


def test_lines_of_two_streams_stay_whole(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path / "a.log")
    pieces = [(OUT, b"one\n"), (OUT, b"50%"), (ERR, b"oh\n"), (OUT, b"60%"), (OUT, b"70%\n"), (ERR, b"x"), (OUT, b"y")]
    assert [log.write(stream, data) for stream, data in pieces] == [None] * len(pieces)
    log.close()
    assert (tmp_path / "a.log").read_bytes() == b"one\n50%\noh\n60%70%\nx\ny"


def test_it_appends_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = WorkerLog(path)
    log.write(OUT, b"one\n")
    with path.open("a") as other:
        other.write("traceback\n")
    log.write(OUT, b"two\n")
    log.close()
    assert path.read_text() == "one\ntraceback\ntwo\n"


@pytest.mark.parametrize("target", ["elsewhere", "/dev/zero"])
def test_a_link_is_not_followed(target: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "worker.log").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        WorkerLog(tmp_path / "worker.log")
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_full_disk_is_reported_once() -> None:
    log = WorkerLog(Path("/dev/full"))
    before = len(os.listdir("/proc/self/fd"))
    error = log.write(OUT, b"lost\n")
    assert error is not None and error.errno == errno.ENOSPC
    assert len(os.listdir("/proc/self/fd")) == before - 1
    assert log.write(OUT, b"lost\n") is None
    log.close()
