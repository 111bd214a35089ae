"""Orphans: found in whatever session they are, reaped and ended; children that somebody waits for are left alone."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.helpers.waiting import until
from tfdist.launch.worker.process_termination import descendants

_TREE = "import subprocess, sys; subprocess.run(['sleep', '60'], start_new_session=True)"

_START = """
import os, subprocess, sys
from tests.helpers.waiting import until
from tfdist.launch.worker.process_termination import Orphans, descendants

def children(): return descendants(os.getpid())
def ended(pid): return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
earlier = subprocess.Popen(["sleep", "60"])
orphans = Orphans()
"""

_ENDED = _START + """
worker = subprocess.Popen(["sh", "-c", "setsid sh -c 'sleep 60 & sleep 60' & exit 3"])
until(lambda: ended(worker.pid) and len(children()) == 4)
orphans.end({worker.pid})
assert children() == [earlier.pid], children()
assert worker.wait() == 3
earlier.kill()
assert earlier.wait() == -9
"""

_REAPED = _START + """
worker = subprocess.Popen(["sh", "-c", "setsid sh -c 'exit 5' & echo $!; read line"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
orphan = int(worker.stdout.readline())
worker.kill()
until(lambda: ended(worker.pid))
def reaped():
    orphans.reap({worker.pid})
    return not os.path.exists(f"/proc/{orphan}")
# The worker, whom somebody is to wait for, may come first.
assert worker.wait() == -9
until(reaped)
earlier.kill()
until(lambda: ended(earlier.pid))
orphans.reap(())
assert earlier.wait() == -9
"""


def run(program: str) -> None:
    """In a process of its own: this one has children of other tests."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr


def test_orphans_end_with_what_they_have_started() -> None:
    run(_ENDED)


def test_orphans_that_have_ended_are_reaped() -> None:
    run(_REAPED)


def test_descendants_are_found_in_whatever_session_they_are() -> None:
    child = subprocess.Popen([sys.executable, "-c", _TREE])
    try:
        until(lambda: len(descendants(child.pid)) == 1)
        assert {child.pid, *descendants(child.pid)} <= set(descendants(os.getpid()))
    finally:
        for pid in descendants(child.pid):
            os.kill(pid, 9)
        child.kill()
        child.wait()
