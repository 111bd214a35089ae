""""""

from __future__ import annotations

import errno
import io
import itertools
import os
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tfdist.launch.logs.output_pump import OutputPump, WorkerLog
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal

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


LOG_LINE = b"I0000 00:00:1795252786.569737    4695 port.cc:153] oneDNN custom operations are on.\n"


def start(
    tmp_path: Path, terminal: Terminal | None = None, index: int = 0, log: Path | None = None, **options: Any
) -> tuple[OutputPump, dict[int, BinaryIO], Path]:
    """A pump and the writing ends of its pipes."""
    reading: dict[int, BinaryIO] = {}
    writing: dict[int, BinaryIO] = {}
    for stream in (STDOUT, STDERR):
        read, write = os.pipe()
        reading[stream], writing[stream] = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
    log = log or tmp_path / "worker.log"
    return OutputPump(index, reading, log, terminal, **options), writing, log


def start_several(tmp_path: Path, terminal: Terminal, count: int) -> list[tuple[OutputPump, dict[int, BinaryIO]]]:
    """Pumps on one terminal and the writing ends of their pipes."""
    pumps = []
    for index in range(count):
        folder = tmp_path / str(index)
        folder.mkdir()
        pump, writing, _ = start(folder, terminal, index)
        pumps.append((pump, writing))
    return pumps


class Shown(io.BytesIO):
    """A terminal that says when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def write(self, data: Any) -> int:
        written = super().write(data)
        self.came.set()
        return written


def finish(pump: OutputPump, writing: dict[int, BinaryIO]) -> None:
    for pipe in writing.values():
        pipe.close()
    assert pump.close(10)


def test_every_byte_is_logged_and_streams_stay_apart_on_the_terminal(tmp_path: Path) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    pump, writing, log = start(tmp_path, Terminal({STDOUT: out, STDERR: err}))
    writing[STDOUT].write(b"one\n\xff\xfe partial")
    writing[STDERR].write(b"warning\n")
    finish(pump, writing)
    assert sorted(log.read_bytes().splitlines()) == sorted([b"one", b"warning", b"\xff\xfe partial"])
    assert out.getvalue() == b"one\n\xff\xfe partial"
    assert err.getvalue() == b"warning\n"
    assert pump.last_lines()[-1] == "\ufffd\ufffd partial"


def test_lines_of_several_workers_are_never_mixed(tmp_path: Path) -> None:
    out = io.BytesIO()
    pumps = start_several(tmp_path, Terminal({STDOUT: out}, prefix=True, whole_lines=True), 3)
    for _ in range(200):
        for index, (_, writing) in enumerate(pumps):
            writing[STDOUT].write(f"{index} is ".encode())
            writing[STDOUT].write(b"here\n")
    for pump, writing in pumps:
        finish(pump, writing)
    lines = out.getvalue().splitlines()
    assert len(lines) == 600
    assert set(lines) == {f"[worker {index}] {index} is here".encode() for index in range(3)}


def test_a_terminal_that_is_gone_and_a_full_disk_stop_nothing(tmp_path: Path) -> None:
    class Gone(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    err = io.BytesIO()
    pump, writing, _ = start(tmp_path, Terminal({STDOUT: Gone(), STDERR: err}), log=Path("/dev/full"))
    writing[STDOUT].write(b"lost\n" * 1000)
    finish(pump, writing)
    assert err.getvalue().count(b"log ends here") == 1
    assert pump.last_lines()[-1] == "lost"


def test_a_process_that_keeps_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pump, writing, log = start(tmp_path)
    writing[STDOUT].write(b"last words")
    assert pump.close(10)
    assert log.read_bytes() == b"last words"
    for pipe in writing.values():
        pipe.close()


def test_bars_and_long_lines_of_several_workers_are_never_mixed(tmp_path: Path) -> None:
    out = io.BytesIO()
    pumps = start_several(tmp_path, Terminal({STDOUT: out, STDERR: out}, prefix=True), 2)
    for number in range(50):
        for index, (_, writing) in enumerate(pumps):
            writing[STDERR].write(f"\r{index}: {number}%|".encode())
            writing[STDOUT].write((f"{index} " * 25_000).encode() + b"\n")
            writing[STDERR].write("é".encode()[:1])
            writing[STDERR].write("é".encode()[1:])
    for pump, writing in pumps:
        finish(pump, writing)
    lines = set(out.getvalue().decode().splitlines())
    assert lines == {
        *(f"[worker {index}] {f'{index} ' * 25_000}" for index in range(2)),
        *(f"[worker {index}] {index}: 49%|é" for index in range(2)),
    }


def test_the_log_has_every_byte_of_a_bar(tmp_path: Path) -> None:
    pump, writing, log = start(tmp_path)
    bar = b"".join(b"\r%d%%" % percent for percent in range(100)) + b"\n"
    writing[STDERR].write(bar)
    finish(pump, writing)
    assert log.read_bytes() == bar
    assert pump.last_lines() == ("99%",)  # not twenty states of one bar


def test_an_unfinished_line_is_soon_in_the_log(tmp_path: Path) -> None:
    out = Shown()
    hasty = itertools.count(step=2).__next__  # two seconds between any two looks at it
    pump, writing, log = start(tmp_path, Terminal({STDOUT: out}, whole_lines=True), clock=hasty)
    writing[STDOUT].write(b"loading...")
    assert out.came.wait(20)
    assert log.read_bytes() == b"loading..."
    writing[STDOUT].write(b" done\n")
    finish(pump, writing)
    assert log.read_bytes() == b"loading... done\n"
    assert out.getvalue() == b"loading...\n done\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_tensorflows_own_lines_are_logged_and_never_among_the_last_lines(tmp_path: Path, quiet: bool) -> None:
    err = io.BytesIO()
    pump, writing, log = start(tmp_path, Terminal({STDERR: err}), quiet=quiet)
    writing[STDERR].write(b"mine\n" + LOG_LINE + LOG_LINE[:10])
    writing[STDERR].write(LOG_LINE[10:] + b"W000")
    finish(pump, writing)
    assert log.read_bytes() == b"mine\n" + LOG_LINE * 2 + b"W000"
    assert err.getvalue() == (b"mine\nW000" if quiet else log.read_bytes())
    assert pump.last_lines() == ("mine", "W000")


def test_of_a_long_line_the_last_lines_have_the_start(tmp_path: Path) -> None:
    pump, writing, _ = start(tmp_path)
    writing[STDOUT].write(b"x" * 100_000 + b"\n")
    finish(pump, writing)
    assert all(set(line) == {"x"} and len(line) <= 2000 for line in pump.last_lines())
