"""In a process of its own: handlers are the process's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.helpers.waiting import PATIENCE

PREPARED = """
import os, queue, signal, threading
from tfdist.training.supervision.launcher_link import call_on_signal
told = queue.Queue()
call_on_signal(signal.SIGTERM, told.put)
"""


def run(body: str, before: str = "") -> subprocess.CompletedProcess[str]:
    script = before + PREPARED + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=40 * PATIENCE)


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


def test_in_another_thread_it_does_nothing() -> None:
    done = run(
        "before = signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "thread = threading.Thread(target=call_on_signal, args=(signal.SIGTERM, told.put))\n"
        "thread.start(); thread.join()\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_each_signal_has_its_own_and_none_is_lost_over_an_error() -> None:
    body = """
    def fails(number):
        told.put("fails")
        raise OSError("no space left")
    call_on_signal(signal.SIGUSR2, fails)
    for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR2):
        os.kill(os.getpid(), number)
        print(told.get(timeout=20), flush=True)
    """
    done = run(body)
    assert (done.returncode, done.stdout) == (0, "fails\n15\nfails\n"), done.stderr
    assert "SIGUSR2, could not be handled" in done.stderr and "no space left" in done.stderr


@pytest.mark.parametrize("own", [False, True], ids=["", "with a handler of its own"])
def test_a_process_that_a_script_forks_is_ended_alone(own: bool) -> None:
    """As `multiprocessing` ends its processes: the job is not told to stop for that."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))" if own else ""
    body = f"""
    import sys
    {handler}
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.write(theirs, b"forked")
        threading.Event().wait(20)
        os._exit(9)
    os.read(ours, 6)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.kill(os.getpid(), signal.SIGTERM)
    print(told.get(timeout=20), told.qsize())
    """
    done = run(body)
    expected = (3, "3\n") if own else (0, "-15\n15 0\n")
    assert (done.returncode, done.stdout) == expected, done.stderr


def test_a_process_that_is_ended_while_it_is_forked() -> None:
    """A pool of processes that is made and ended at once, as Keras's at the end of a `fit`."""
    script = "import os, signal\nos.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
    body = """
    child = os.fork()
    if not child:
        os._exit(9)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.kill(os.getpid(), signal.SIGTERM)
    print(told.get(timeout=20), told.qsize(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    """
    done = run(body, before=script)
    assert (done.returncode, done.stdout) == (0, "-15\n15 0 set()\n"), done.stderr


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "open"])
def test_what_listens_to_signals_itself_does_not_keep_them(closes: bool) -> None:
    body = f"""
    import asyncio
    loop = asyncio.new_event_loop()
    loop.add_signal_handler(signal.SIGUSR1, print)
    if {closes}:
        loop.close()
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        print(told.get(timeout=20), told.qsize())
    """
    done = run(body)
    assert (done.returncode, done.stdout) == (0, "15 0\n15 0\n"), done.stderr
