"""A worker that trains nothing: it reports a step every second, as workers report theirs, until it is ended."""

from __future__ import annotations

import os
import socket
import time

from tfdist.launch.environment import Assignment
from tfdist.launch.worker.launcher_channel import LauncherChannel
from tfdist.rundir.state_records import State, WorkerState

BEAT_SECONDS = 1.0


def state_of(index: int, address: str | None, step: int) -> WorkerState:
    """The state of a worker that has just done this step."""
    now = time.time()
    return WorkerState(
        index=index,
        address=address,
        host=socket.gethostname(),
        pid=os.getpid(),
        attempt=0,
        state=State.STEP,
        epoch=0,
        step=step,
        time=now,
        moves=step,
        moved=now,
        limit=600.0,
        rate=1000.0,
        busy=0.9,
        begun=step,
        step_seconds=1.0,
    )


def main() -> None:
    """Reports steps; whoever started it ends it."""
    assignment = Assignment.from_environ()
    assert assignment is not None and assignment.channel_fd is not None
    channel = LauncherChannel(assignment.channel_fd)
    channel.watch()
    step = 0
    while True:
        step += 1
        channel.beat(state_of(assignment.index, assignment.address, step).to_dict())
        time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main()
