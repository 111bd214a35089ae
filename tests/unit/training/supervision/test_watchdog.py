"""The watchdog, on a stand-in for TensorFlow: a module whose functions wait. Its time passes with its looks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

WATCHED = """
import os, sys, threading
sys.path.insert(0, {folder!r})
from pathlib import Path
from tfdist.training.supervision.watchdog import Watchdog
import library.waits as waits

TIMEOUT, LOOKS = 0.02, 20
looks, returned, has_looked = 0, threading.Event(), threading.Event()
calls_are_short = False
ends_at, checked = 0, threading.Event()

def clock():
    global looks
    looks += 1
    if looks == ends_at:
        waits.lock.release()
        assert checked.wait(20)
    if calls_are_short and looks % 3 == 0:
        returned.clear()
        waits.lock.release()
        assert returned.wait(20)
    if looks > 3 * LOOKS:
        has_looked.set()
    return looks * TIMEOUT / LOOKS

def end(error):
    print(looks, type(error).__name__, error, *error.__notes__, flush=True)
    os._exit(7)

Watchdog(lambda: TIMEOUT, end, library=Path({folder!r}) / "library", clock=clock).start()
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
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=150)


def test_ends_a_process_that_waits_in_the_library(tmp_path: Path) -> None:
    done = run(tmp_path, "waits.wait(20)")
    assert done.returncode == 7, done.stderr
    looks, kind, message = done.stdout.split(maxsplit=2)
    assert int(looks) > 20 and kind == "WorkerFailedError"
    assert "more than 0.02 s" in message
    assert "waits.wait(20)" in message


def test_many_short_calls_are_no_long_one(tmp_path: Path) -> None:
    body = """
    calls_are_short = True
    while not has_looked.is_set():
        assert waits.wait(20)
        returned.set()
    """
    done = run(tmp_path, body)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_waiting_elsewhere_is_the_scripts_own_matter(tmp_path: Path) -> None:
    done = run(tmp_path, "assert has_looked.wait(20)")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_keeps_nothing_of_a_call_that_has_ended(tmp_path: Path) -> None:
    """Until the next look, which does not come, it would keep what a function had in variables that called there."""
    body = """
    import gc, weakref

    class Weight:
        pass

    def call(weight):
        assert waits.wait(20)

    weight = Weight()
    kept = weakref.ref(weight)
    gc.disable()
    ends_at = looks + 10
    call(weight)
    del weight
    print("freed" if kept() is None else "kept")
    checked.set()
    """
    assert run(tmp_path, body).stdout.split() == ["freed", "done"]
