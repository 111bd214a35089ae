"""What the system tells of a process that does not answer."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.launch.worker.worker_process import (
    NATIVE,
    SILENT,
    STOPPED,
    ProcessSample,
    mapped_files,
    shrunk_file,
    why_silent,
)

SLEEPS = "import signal; print('there', flush=True); signal.pause()"
COMPUTES = "print('there', flush=True)\nwhile True: pass"


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def sample_of(pid: int) -> ProcessSample:
    sample = ProcessSample.of(pid)
    assert sample is not None
    return sample


@pytest.mark.parametrize("child", [SLEEPS], indirect=True)
def test_a_stopped_process(child: subprocess.Popen[bytes]) -> None:
    until(lambda: sample_of(child.pid).states == "S")
    before = sample_of(child.pid)
    assert not before.is_stopped and 0 <= before.swapped <= 1
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert sample_of(child.pid).is_stopped
    assert why_silent(before, ProcessSample.of(child.pid), 2.0) == STOPPED


@pytest.mark.parametrize("child", [COMPUTES], indirect=True)
def test_a_process_that_computes(child: subprocess.Popen[bytes]) -> None:
    before = sample_of(child.pid)
    until(lambda: sample_of(child.pid).processor_seconds > before.processor_seconds + 0.05)
    assert why_silent(before, sample_of(child.pid), 0.05) == NATIVE


def test_no_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert ProcessSample.of(child.pid) is None
    assert why_silent(None, None, 2.0) == SILENT


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (ProcessSample("TS", 1.0, 0.0), STOPPED),
        (ProcessSample("tS", 1.0, 0.0), STOPPED),
        (ProcessSample("DS", 1.0, 0.0), "a disk or a file system"),
        (ProcessSample("SR", 1.0, 0.9), "swapped out"),
        (ProcessSample("SR", 1.05, 0.0), "gets no processor"),
        (ProcessSample("SR", 1.5, 0.0), NATIVE),
        (ProcessSample("SS", 1.0, 0.0), NATIVE),
    ],
)
def test_why_a_process_is_silent(after: ProcessSample, why: str) -> None:
    assert why in why_silent(ProcessSample("SS", 1.0, 0.0), after, 2.0)


def test_a_name_with_brackets_and_a_thread_that_has_ended(tmp_path: Path) -> None:
    rest = "0 " * 10
    process = tmp_path / "7"
    for thread in ("7", "8", "9"):
        (process / "task" / thread).mkdir(parents=True)
    (process / "task" / "8" / "stat").write_text(f"8 (a) R (b) D {rest}")
    (process / "stat").write_text(f"7 (a) R (b) S {rest}{os.sysconf('SC_CLK_TCK')} 0 0")
    (process / "status").write_text("Name:\ta\nVmRSS:\t   100 kB\nVmSwap:\t   300 kB\n")
    assert ProcessSample.of(7, tmp_path) == ProcessSample("SD", 1.0, 0.75)


def test_a_mapped_file_that_became_smaller_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x y.npy"
    path.write_bytes(bytes(20_000))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        mapped = mapped_files(os.getpid())
    assert 20_000 - mmap.PAGESIZE < mapped[str(path)] <= 20_000
    assert not [other for other in mapped if other.endswith(".so")]
    assert shrunk_file(mapped) == ""
    os.truncate(path, 100)
    said = shrunk_file({str(path): 16_385})
    assert said == f"{path} had 16,385 bytes or more when it was mapped into memory, and has 100"
    path.unlink()
    assert shrunk_file(mapped) == ""


def test_a_process_that_is_gone_has_nothing_mapped(tmp_path: Path) -> None:
    assert mapped_files(1, tmp_path) == {}
