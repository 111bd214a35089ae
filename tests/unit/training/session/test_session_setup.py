"""A process whose native code holds Python's lock ends with its parent, and after its time."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.cluster import Cluster
from tfdist.training.session import session_setup

PR_GET_PDEATHSIG = 2

HOLD = """
import ctypes, os, sys
from tfdist.training.session.session_setup import bounded

with bounded(float(sys.argv[1]), has_launcher=sys.argv[2] == "launched"):
    print(os.getpid(), flush=True)
    ctypes.PyDLL(None).sleep(50)  # which does not let go of the lock
"""

START = """
import subprocess, sys

subprocess.Popen([sys.executable, "-c", *sys.argv[1:]]).wait()
"""


def exists(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # a zombie has none
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def held(how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the lock, by its number, and its parent, which is killed at the end."""
    command = [sys.executable, "-c", START, HOLD, "40", how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            yield parent, pid
        finally:
            parent.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_it_ends_with_its_parent() -> None:
    with held("launched") as (parent, pid):
        parent.kill()
        until(lambda: not exists(pid), 10)


def test_without_a_launcher_the_parent_may_go() -> None:
    with held("alone") as (parent, pid):
        parent.kill()
        parent.wait()
        assert exists(pid)


def test_it_ends_after_its_time_and_says_where_it_was() -> None:
    command = [sys.executable, "-c", HOLD, "0.1", "alone"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 1
    assert "Timeout" in done.stderr and 'File "<string>", line' in done.stderr


def signal_of_parents_end() -> int:
    """What this process gets when its parent ends; 0 for nothing."""
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The bounds that were set, and "cancelled" for each that was taken back."""
    asked: list[object] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: asked.append(seconds))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: asked.append("cancelled"))
    return asked


def test_what_comes_after_it_may_take_any_time(asked: list[object]) -> None:
    """Also after an error."""
    with pytest.raises(KeyError), session_setup.bounded(7.0, has_launcher=True):
        assert (asked, signal_of_parents_end()) == ([7.0], signal.SIGKILL)
        raise KeyError
    assert (asked, signal_of_parents_end()) == ([7.0, "cancelled"], 0)


def test_a_worker_without_a_launcher_says_whom_it_waits_for(
    asked: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before nothing in its process can speak."""
    with session_setup.forming(1, Cluster.parse("a:1,b:2"), 600.0, None):
        assert "worker 1 waits until all of a:1,b:2 have joined, for 600 s at most" in capsys.readouterr().err
        assert (asked, signal_of_parents_end()) == ([600.0], 0)
    assert asked == [600.0, "cancelled"]
