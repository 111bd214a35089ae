from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tfdist.rundir.process_presence import Presence, presence, start_ticks

HOST = socket.gethostname()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_that_is_alive() -> None:
    assert presence(HOST, os.getpid(), time.time()) is Presence.ALIVE


def test_another_process_of_the_same_number() -> None:
    assert presence(HOST, os.getpid(), time.time() - 7 * 86400) is Presence.GONE


@pytest.mark.parametrize("seen", [-7 * 86400, 7 * 86400])
def test_a_clock_that_was_set_makes_no_other_process(seen: float) -> None:
    started = start_ticks(os.getpid())
    assert started is not None
    assert presence(HOST, os.getpid(), time.time() + seen, started) is Presence.ALIVE
    assert presence(HOST, os.getpid(), time.time(), started + 1) is Presence.GONE


def test_a_process_that_is_stopped_and_then_gone(child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert presence(HOST, child.pid, time.time()) is Presence.STOPPED
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert presence(HOST, child.pid, time.time()) is Presence.GONE  # not yet reaped
    child.wait()
    assert presence(HOST, child.pid, time.time()) is Presence.GONE


def test_a_process_of_another_machine() -> None:
    assert presence(f"not-{HOST}", os.getpid(), time.time()) is Presence.ELSEWHERE


@pytest.mark.parametrize("pid", [2**40, 10**30])
def test_a_number_that_no_process_has(pid: int) -> None:
    assert presence(HOST, pid, time.time()) is Presence.GONE
