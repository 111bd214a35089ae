"""A process whose native code holds Python's lock ends with its parent, and after its time."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from tfdist.training.session import cluster_start

HOLD = """
import ctypes, os, sys
from tfdist.training.session.cluster_start import bounded

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "Timeout" in done.stderr and 'File "<string>", line' in done.stderr


def test_what_comes_after_it_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an error."""
    asked: list[object] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: asked.append(seconds))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: asked.append("cancelled"))
    monkeypatch.setattr(cluster_start, "_end_with_parent", asked.append)
    with pytest.raises(KeyError), cluster_start.bounded(7.0, has_launcher=True):
        raise KeyError
    assert asked == [7.0, signal.SIGKILL, "cancelled", 0]
