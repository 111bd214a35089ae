"""What a process knows of its job before it touches a device."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.launch.recording_request import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, options_of_start
from tfdist.training.probes.tracer import Tracer
from tfdist.training.supervision.error_report import report
from tfdist.training.supervision.launcher_link import LauncherLink, link_of

_LAUNCHERS_SECONDS = 30.0
"""By which the launcher is to be first to say that a worker hangs."""


def _end_with(error: WorkerFailedError) -> None:
    """Ends a process that no launcher watches."""
    print(f"error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr, flush=True)
    os._exit(error.exit_code)


@dataclass(frozen=True)
class WorkerContext:
    """One worker's place in its job.

    Attributes:
        index: This worker's index; 0 is the chief.
        cluster: All workers; None where there is one.
        communication: Which collectives to use.
        compression: What gradients are sent as between workers; "none" for what they are.
        timeout: Returns the seconds that one call into TensorFlow may take now.
        end: Ends the process with an error.
        seed: The run's; None where no launcher gave one.
        run: The run directory; None without a launcher.
        line: The ties to the launcher, or None.
        recording: What to record for `tfdist verify`, or None.
        trace: Makes what traces a run for `tfdist verify --kill`, or None.
        keeping: Which checkpoints a script's `fit`s are to have, or None.
        attempt: Starts of the group before this one.
        job: Different for every start by hand; empty without a launcher.
    """

    index: int
    cluster: Cluster | None
    communication: str = "auto"
    compression: str = "none"
    timeout: Callable[[], float] = lambda: 600.0
    end: Callable[[WorkerFailedError], None] = _end_with
    seed: int | None = None
    run: RunDir | None = None
    line: LauncherLink | None = None
    recording: RecordingRequest | None = None
    trace: Callable[[tf.distribute.Strategy], Tracer] | None = None
    keeping: CheckpointOptions | None = None
    attempt: int = 0
    job: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The workers' `host:port`; empty where there is one worker."""
        return () if self.cluster is None else tuple(str(address) for address in self.cluster.workers)

    @property
    def num_workers(self) -> int:
        """Workers of the job."""
        return max(1, len(self.addresses))


def context_of(assignment: Assignment) -> WorkerContext:
    """The place of a worker that `tfdist train` started.

    Raises:
        RunDirError: The run directory cannot be written.
    """
    line = link_of(assignment)
    return WorkerContext(
        assignment.index,
        None if assignment.cluster is None else Cluster.parse(assignment.cluster),
        communication=assignment.communication,
        compression=assignment.compression,
        timeout=lambda: _watchdog_seconds(assignment, line),
        end=lambda error: os._exit(report(error, assignment)),
        seed=assignment.seed,
        run=RunDir(assignment.run_dir),
        line=line,
        recording=assignment.recording,
        trace=assignment.trace and functools.partial(Tracer, assignment.trace, assignment, line.heartbeat),
        keeping=options_of_start(assignment),
        attempt=assignment.attempt,
        job=assignment.job,
    )


def _watchdog_seconds(assignment: Assignment, line: LauncherLink) -> float:
    """How long a call into TensorFlow may take now: somewhat longer than a launcher, which knows more, waits."""
    limit = line.heartbeat.state.limit
    seconds = assignment.first_step_timeout if limit is None else limit
    return seconds if line.channel is None else seconds + _LAUNCHERS_SECONDS
