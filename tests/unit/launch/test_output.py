from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tfdist.launch.output import STDERR, STDOUT, LineCutter, Pump, Terminal


def start(tmp_path: Path, terminal: Terminal | None = None, index: int = 0) -> tuple[Pump, dict[int, BinaryIO], Path]:
    """A pump and the writing ends of its pipes."""
    reading: dict[int, BinaryIO] = {}
    writing: dict[int, BinaryIO] = {}
    for stream in (STDOUT, STDERR):
        read, write = os.pipe()
        reading[stream], writing[stream] = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
    log = tmp_path / "worker.log"
    return Pump(index, reading, log, terminal), writing, log


def finish(pump: Pump, writing: dict[int, BinaryIO]) -> None:
    for pipe in writing.values():
        pipe.close()
    assert pump.close(10)


@pytest.mark.parametrize(
    ("pieces", "whole", "rest"),
    [
        ([b"a\nb"], [b"a\n"], b"b"),
        ([b"a", b"b\n", b"c\nd\n"], [b"", b"ab\n", b"c\nd\n"], b""),
        ([b"123456789"], [b"123456789"], b""),  # too long to be kept
        ([b"a\r", b"b\r\n"], [b"", b"a\rb\r\n"], b""),
    ],
)
def test_lines_are_cut(pieces: list[bytes], whole: list[bytes], rest: bytes) -> None:
    cutter = LineCutter(max_partial=8)
    assert [cutter.feed(piece) for piece in pieces] == whole
    assert cutter.rest() == rest


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
    terminal = Terminal({STDOUT: out}, prefix=True, whole_lines=True)
    pumps = []
    for index in range(3):
        folder = tmp_path / str(index)
        folder.mkdir()
        pumps.append(start(folder, terminal, index))
    for _ in range(200):
        for index, (_, writing, _) in enumerate(pumps):
            writing[STDOUT].write(f"{index} is ".encode())
            writing[STDOUT].write(b"here\n")
    for pump, writing, _ in pumps:
        finish(pump, writing)
    lines = out.getvalue().splitlines()
    assert len(lines) == 600
    assert set(lines) == {f"[worker {index}] {index} is here".encode() for index in range(3)}


def test_a_terminal_that_is_gone_and_a_full_disk_stop_nothing(tmp_path: Path) -> None:
    class Gone(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    err = io.BytesIO()
    pump, writing, _ = start(tmp_path, Terminal({STDOUT: Gone(), STDERR: err}))
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", 0)
    assert pump._log is not None
    pump._log, _ = full, pump._log.close()
    writing[STDOUT].write(b"lost\n" * 1000)
    finish(pump, writing)
    assert b"log ends here" in err.getvalue()
    assert pump.last_lines()[-1] == "lost"


def test_somebody_who_keeps_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pump, writing, log = start(tmp_path)
    writing[STDOUT].write(b"last words")
    assert pump.close(10)
    assert log.read_bytes() == b"last words"
    for pipe in writing.values():
        pipe.close()
