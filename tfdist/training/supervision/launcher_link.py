"""The link of a worker to its launcher, from its first moment: channel, heartbeat, stops, the answer to `dump`."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker.channel_protocol import NATIVE_DUMP
from tfdist.launch.worker.chief_post import chief_post
from tfdist.launch.worker.launcher_channel import LauncherChannel
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.regular_files import open_to_append
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import Heartbeat
from tfdist.training.supervision.ledger_writer import LedgerWriter
from tfdist.training.supervision.stop_requests import StopRequests
from tfdist.training.supervision.thread_stacks import called_places, format_stacks, main_place
from tfdist.training.supervision.worker_signals import call_on_signal


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
