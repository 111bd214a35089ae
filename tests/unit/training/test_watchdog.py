"""The watchdog, on a stand-in for TensorFlow: a module whose functions wait."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

WATCHED = """
import sys, threading, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from tfdist.training.watchdog import Watchdog
import os, library.waits as waits

def end(error):
    print(type(error).__name__, error, *error.__notes__, flush=True)
    os._exit(7)

Watchdog(lambda: 0.4, end, library=Path({folder!r}) / "library").start()
{body}
print("done")
"""


def run(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    package = tmp_path / "library"
    package.mkdir()
    (package / "waits.py").write_text(
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\n\n"
        "def wait(seconds):\n    return lock.acquire(True, seconds)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(WATCHED.format(folder=str(tmp_path), body=textwrap.dedent(body)))
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=30)


def test_ends_a_process_that_waits_in_the_library(tmp_path: Path) -> None:
    done = run(tmp_path, "waits.wait(20)")
    assert done.returncode == 7
    assert "WorkerFailedError" in done.stdout
    assert "more than 0.4 s" in done.stdout
    assert "waits.wait(20)" in done.stdout


def test_many_short_calls_are_no_long_one(tmp_path: Path) -> None:
    done = run(tmp_path, "for _ in range(12):\n    waits.wait(0.1)")
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_waiting_elsewhere_is_the_scripts_own_matter(tmp_path: Path) -> None:
    done = run(tmp_path, "time.sleep(1.2)")
    assert (done.returncode, done.stdout) == (0, "done\n")
