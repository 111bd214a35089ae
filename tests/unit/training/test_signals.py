"""In a process of its own: handlers are the process's."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PREPARED = """
import os, queue, signal, threading
from tfdist.training.signals import relay_terminations
told = queue.Queue()
relay_terminations(told.put)
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    script = PREPARED + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=40)


def test_a_termination_is_told_while_the_main_thread_is_in_native_code() -> None:
    """Where Python runs no handler: a mutex of the C library is waited for through signals."""
    body = """
    import ctypes
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    def end():
        os.kill(os.getpid(), signal.SIGTERM)
        print(told.get(timeout=20), flush=True)
        libc.pthread_mutex_unlock(mutex)
    threading.Thread(target=end).start()
    libc.pthread_mutex_lock(mutex)
    print("alive", told.qsize())
    """
    done = run(body)
    assert (done.returncode, done.stdout) == (0, "15\nalive 0\n"), done.stderr


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: print('mine', flush=True)"])
def test_a_script_may_handle_it_itself(handler: str) -> None:
    body = f"""
    signal.signal(signal.SIGTERM, {handler})
    os.kill(os.getpid(), signal.SIGTERM)
    relayed = True
    try:
        told.get(timeout=1)
    except queue.Empty:
        relayed = False
    print("relayed", relayed)
    """
    done = run(body)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*(["mine"] if "mine" in handler else []), "relayed False"]


def test_in_another_thread_it_does_nothing(tmp_path: Path) -> None:
    done = run(
        "before = signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "thread = threading.Thread(target=relay_terminations, args=(told.put,))\n"
        "thread.start(); thread.join()\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
