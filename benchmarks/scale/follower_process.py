"""Many launchers of one host as threads: `python -m benchmarks.scale.follower_process FOLDER HOST`.

Each runs what a launcher runs, from the forming of the cluster to the end of its worker group; its worker is an object
that reports steps. The process says that it is ready, begins when it hears a line, says when all its launchers have met
the others, kills the worker that it then is told to, and says when each launcher had ended.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.scale.launcher_process import say
from benchmarks.scale.scale_job import ScaleJob
from benchmarks.scale.stepping_worker import BEAT_SECONDS, state_of
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.agent.worker_group import WorkerGroup
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobLifecycle, JobPhase
from tfdist.launch.rendezvous.cluster_formation import form
from tfdist.launch.signals import Signals
from tfdist.launch.worker.worker_process import ProcessSample, Worker
from tfdist.net.line_socket import Message
from tfdist.rundir.failure import Failure

_STACK_BYTES = 256 * 1024


class SteppingObject:
    """A worker of a launcher that is a thread."""

    def __init__(self, index: int, address: str) -> None:
        self.index, self.attempt, self.address = index, 0, address
        self.log = Path("none.log")
        self.ended_by_launcher = False
        self.told: dict[str, Any] | None = None
        self.pid = 0
        self.killed_at: float | None = None
        self._code: int | None = None
        self._step = 0
        # Not all at once, as workers are not.
        self._next_beat = time.monotonic() + index % 100 / 100 * BEAT_SECONDS

    def fileno(self) -> int:
        return -1

    def receive(self) -> list[Message]:
        if time.monotonic() < self._next_beat:
            return []
        self._next_beat += BEAT_SECONDS
        self._step += 1
        return [{"beat": state_of(self.index, self.address, self._step).to_dict()}]

    def send(self, message: Message) -> None:
        """It obeys signals alone."""

    def poll(self) -> int | None:
        if self.killed_at is not None and self._code is None:
            self._code, self.killed_at = -signal.SIGKILL, time.monotonic()
        return self._code

    def terminate(self) -> None:
        self.ended_by_launcher, self._code = True, self._code or -signal.SIGTERM

    def kill(self) -> None:
        self.terminate()

    def sample(self) -> ProcessSample:
        return ProcessSample("S", 0.0, 0.0)

    def dump_natively(self) -> None:
        """It has no stacks."""

    def last_lines(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """It has nothing open."""


class ThreadLauncher:
    """One launcher.

    Attributes:
        index: Its worker.
        worker: What it watches.
        formed_at: When it had met the others; None before.
        ended_at: When its part of the job had ended; None before.
        code: The exit code that it would have.
    """

    def __init__(self, index: int, cluster: Cluster) -> None:
        self.index = index
        self.worker = SteppingObject(index, str(cluster.workers[index]))
        self.formed_at: float | None = None
        self.ended_at: float | None = None
        self.code: int | None = None
        self._cluster = cluster

    def run(self, timeout: float) -> None:
        """Runs from the forming to the end."""
        membership = Membership(self._cluster, (self.index,))
        with Signals() as signals:
            formed = form(membership, self._cluster, _no_go, timeout, signals, say=lambda text: None)
            self.formed_at = time.monotonic()
            with contextlib.closing(formed.links) as links:
                lifecycle = JobLifecycle()
                lifecycle.enter(JobPhase.FORMING)
                assignment = Assignment(
                    "none",
                    0,
                    self.index,
                    len(self._cluster),
                    "script",
                    "none.py",
                    address=self.worker.address,
                    cluster=str(self._cluster),
                )
                dependencies = Dependencies(lambda given: self.worker, _diagnose, links, signals)
                self.code = WorkerGroup([assignment], dependencies, lifecycle).run().code
        self.ended_at = time.monotonic()


def _no_go() -> dict[str, Any]:
    raise AssertionError("only the chief's launcher makes the go")


def _diagnose(worker: Worker, code: int) -> Failure | None:
    return None if worker.ended_by_launcher else from_signal(worker.index, -code)


def main() -> int:
    """Runs the launchers of one host."""
    folder, host = Path(sys.argv[1]), int(sys.argv[2])
    job = ScaleJob.read(folder)
    cluster = job.cluster
    launchers = {index: ThreadLauncher(index, cluster) for index in job.threads_on(host)}
    say({"ready": len(launchers)})
    sys.stdin.readline()
    threading.stack_size(_STACK_BYTES)
    with ThreadPoolExecutor(max(1, len(launchers))) as pool:
        ends = [pool.submit(launcher.run, job.timeout) for launcher in launchers.values()]
        while not all(launcher.formed_at or end.done() for launcher, end in zip(launchers.values(), ends, strict=True)):
            time.sleep(0.1)
        say({"formed": max((launcher.formed_at or 0.0 for launcher in launchers.values()), default=0.0)})
        for line in sys.stdin:
            launchers[int(line)].worker.killed_at = time.monotonic()
    say(_account(launchers, [str(error) for end in ends if (error := end.exception()) is not None]))
    return 0


def _account(launchers: Mapping[int, ThreadLauncher], errors: list[str]) -> dict[str, Any]:
    return {
        "ended": max((launcher.ended_at or 0.0 for launcher in launchers.values()), default=0.0),
        "codes": sorted({str(launcher.code) for launcher in launchers.values()}),
        "killed": [launcher.worker.killed_at for launcher in launchers.values() if launcher.worker.killed_at],
        "errors": errors[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
