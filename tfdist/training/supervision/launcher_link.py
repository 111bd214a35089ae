"""The link of a worker to its launcher, from its first moment: channel, heartbeat, stops, the answer to `dump`."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker.channel_protocol import NATIVE_DUMP
from tfdist.launch.worker.launcher_channel import LauncherChannel, chief_post
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.regular_files import open_to_append
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import Heartbeat, LedgerWriter
from tfdist.training.supervision.stop_requests import StopRequests
from tfdist.training.supervision.thread_stacks import called_places, format_stacks, main_place

_READ_BYTES = 64

_log = logging.getLogger("tfdist")

SignalHandler = Callable[[int], object]


def call_on_signal(number: int, handler: SignalHandler) -> None:
    """Has `handler` called whenever this process gets the signal, instead of the default action.

    Call it in the main thread; in another it does nothing. A handler that a script sets later replaces this one, and
    processes that the script forks have the default action.

    Args:
        number: The signal's. SIGTERM after the strategy is made: TensorFlow's own handler would replace an earlier one.
        handler: Called with the signal's number, in a thread of its own.
    """
    if threading.current_thread() is threading.main_thread():
        _listener().take(number, handler)


class _Listener:
    """Reads signals in a thread: Python writes each one's number to a socket, whatever the main thread does."""

    def __init__(self) -> None:
        self._handlers: dict[int, SignalHandler] = {}
        self._read, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        self._masks = threading.local()
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._reset)
        threading.Thread(target=self._listen, name="tfdist-signals", daemon=True).start()

    def take(self, number: int, handler: SignalHandler) -> None:
        self._handlers[number] = handler
        signal.signal(number, _keep_alive)

    def notice(self, number: int) -> None:
        """Called in the main thread, as soon as it runs Python: handles signals whose numbers another listener took.

        Such as asyncio, for a handler of its own, also after its loop has been closed.
        """
        ours = self._written.fileno()
        others = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if others != ours:
            if others != -1:
                signal.set_wakeup_fd(others, warn_on_full_buffer=False)
            with contextlib.suppress(BlockingIOError):  # full of numbers that the thread has yet to read
                self._written.send(bytes([number]))

    def _listen(self) -> None:
        while numbers := self._read.recv(_READ_BYTES):
            for number in numbers:
                self._handle(number)

    def _handle(self, number: int) -> None:
        if number not in self._handlers or signal.getsignal(number) is not _keep_alive:
            return
        try:
            self._handlers[number](number)
        except Exception:
            # The thread must live for the next signal.
            _log.exception("A signal to this worker, %s, could not be handled.", signal.Signals(number).name)

    def _block(self) -> None:
        """Before a fork, in the thread that forks: a signal to the new process must not reach this one's socket."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._handlers)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _reset(self) -> None:
        """In the new process: its signals have their default actions."""
        signal.set_wakeup_fd(-1)
        for number in self._handlers:
            if signal.getsignal(number) is _keep_alive:
                signal.signal(number, signal.SIG_DFL)
        self._unblock()


_listener = functools.cache(_Listener)


def _keep_alive(number: int, frame: FrameType | None) -> None:
    """The Python handler: keeps the process alive, while the number is on its way to the thread."""
    _listener().notice(number)


@dataclass(frozen=True)
class LauncherLink:
    """The connection of a worker to its launcher.

    Attributes:
        channel: The socket to it; None for a worker that was started without one.
        activity: What this worker does.
        heartbeat: Reports it.
        stop_requests: Stops this worker with all others.
        ledger: Writes what its time was spent on; None on workers other than the chief, whose account is the job's.
    """

    channel: LauncherChannel | None
    activity: ActivityTracker
    heartbeat: Heartbeat
    stop_requests: StopRequests
    ledger: LedgerWriter | None


_DUMP_SECONDS = 0.5
"""Seconds that the answer to `dump` waits for the log; the launcher waits for the answer for some seconds."""


@functools.cache
def link_of(assignment: Assignment) -> LauncherLink:
    """The link of the worker that has this assignment; the first call opens it. It takes no TensorFlow.

    Raises:
        RunDirError: The run directory cannot be written.
    """
    run = RunDir(Path(assignment.run_dir))
    log = run.log_file(assignment.index, assignment.attempt)
    activity = ActivityTracker(Limits(assignment.first_step_timeout, assignment.step_timeout))
    ledger = LedgerWriter(run.ledger_file, assignment.attempt, activity) if assignment.index == 0 else None
    stop_requests = StopRequests(assignment.grace)
    channel = None
    if assignment.channel_fd is not None:
        channel = LauncherChannel(
            assignment.channel_fd,
            handlers={
                "hold": lambda _: {"begun": stop_requests.hold()},
                "stop": lambda stop: stop_requests.stop(int(stop["after"]), int(stop["code"])),
                "dump": lambda _: _dump(log),
                "post": chief_post().deliver,
            },
        )
        chief_post().connect(channel.post)
        channel.watch()
    tell = None if channel is None else lambda state: channel.beat(state.to_dict())
    heartbeat = Heartbeat(run.state_file(assignment.index), assignment, activity, tell)
    return LauncherLink(channel, activity, heartbeat, stop_requests, ledger)


def dump_on_signal(assignment: Assignment) -> None:
    """Has SIGUSR2 write the stacks of all threads into the log, as soon as Python runs.

    NATIVE_DUMP does so even while native code holds Python's lock, but may end a worker whose threads run Python.
    """
    path = RunDir(Path(assignment.run_dir)).log_file(assignment.index, assignment.attempt)
    call_on_signal(signal.SIGUSR2, lambda _: _dump(path))
    if NATIVE_DUMP is not None:
        # Never closed: the handler has only the file's descriptor.
        faulthandler.register(NATIVE_DUMP, file=open_to_append(path), all_threads=True)


def _dump(log: Path) -> Mapping[str, Any]:
    said = {"stacks": format_stacks(), "where": main_place(), "called": called_places()}
    also = f", and runs {said['called']}" if said["called"] else ""
    text = f"tfdist: asked where it is, this worker is at {said['where']}{also}\n{said['stacks']}\n"

    def write() -> None:
        with open_to_append(log) as file:
            file.write(text.encode(errors="replace"))

    # A disk that is full or silent may be what the worker waits for; the launcher gets the answer all the same.
    with contextlib.suppress(OSError, RunDirError):
        BoundedDisk(log, _DUMP_SECONDS).call(write)
    return said
