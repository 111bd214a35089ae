"""A process whose native code holds Python's lock ends with its parent, and after its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.workers.launching import until

HOLD = """
import ctypes, os, sys
from tfdist.training.forming import bounded

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


def test_it_ends_with_its_parent() -> None:
    command = [sys.executable, "-c", START, HOLD, "40", "launched"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    until(lambda: not exists(pid), 10)


def test_it_ends_after_its_time_and_says_where_it_was() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOLD, "0.1", "alone"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr and 'File "<string>", line 7 in <module>' in done.stderr


def test_what_comes_after_it_may_take_any_time() -> None:
    program = HOLD.replace("ctypes.PyDLL(None).sleep(50)", "pass") + "\nimport time; time.sleep(0.3)"
    command = [sys.executable, "-c", program, "0.2", "alone"]
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def test_without_a_launcher_the_parent_may_go() -> None:
    command = [sys.executable, "-c", START, HOLD, "40", "alone"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        assert exists(pid)
        os.kill(pid, signal.SIGKILL)
