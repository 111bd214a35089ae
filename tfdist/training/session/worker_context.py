"""The worker's context: what a process knows of its job before it touches a device, and which options idle there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_options import WorkerOptions
from tfdist.net.host_links import LinkEnds
from tfdist.training.supervision.error_report import report
from tfdist.training.supervision.launcher_link import LauncherLink, link_of


def idle_options(options: WorkerOptions, *, workers: int, on_gpus: bool) -> list[str]:
    """A sentence for each option that was given and changes nothing.

    Args:
        options: Of the run.
        workers: How many the cluster has.
        on_gpus: Whether this worker computes on GPUs; all others do as it does.
    """
    found = []
    if options.memory_limit is not None and not on_gpus:
        found.append(
            f"The memory limit of {options.memory_limit} MiB (--memory-limit, or devices.memory_limit in a config) has "
            "no effect: it limits GPUs, and this run computes on CPUs."
        )
    if options.share_gpu and not on_gpus:
        found.append("--share-gpu has no effect: it is for workers that share a GPU, and this run computes on CPUs.")
    if options.shard_over != "all" and options.shard == "none":
        found.append(
            f"--shard-over {options.shard_over} has no effect: it says which workers share what --shard cuts, and "
            "--shard none cuts nothing."
        )
    if workers > 1:
        return found
    alone = "between workers, and this run has one."
    if options.compression != "none":
        found.append(f"--compression {options.compression} has no effect: it is for gradients that are sent {alone}")
    if options.communication in ("ring", "shm") and not on_gpus:  # of several GPUs of one worker it leaves NCCL out
        found.append(f"--communication {options.communication} has no effect: it is for collectives {alone}")
    if options.shard != "none":
        found.append(
            f"--shard {options.shard} has no effect: it cuts what several workers hold, and this run has one, which "
            "holds all. Give it --nproc N or --workers."
        )
    if options.shard_embeddings is not None:
        found.append(
            f"--shard-embeddings {options.shard_embeddings} has no effect: it gives each of several workers some "
            "rows, and this run has one, which has all. Give it --nproc N or --workers."
        )
    return found


_LAUNCHER_SECONDS = 30.0
"""Seconds that a worker waits longer than its launcher before it reports a hang itself: the launcher knows more."""


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
        options: Those of all workers of the job.
        links: Its ends of the sets of links to the other workers of its host.
        host_workers: The workers of its host that may share what the first of them draws; none where each draws alone.
        feed_sockets: File descriptors of its sockets for that.
        timeout: Returns the seconds that one call into TensorFlow may take now.
        end: Ends the process with an error.
    """

    index: int
    cluster: Cluster | None
    options: WorkerOptions = WorkerOptions()
    links: tuple[LinkEnds, ...] = ()
    host_workers: tuple[int, ...] = ()
    feed_sockets: tuple[int, ...] = ()
    timeout: Callable[[], float] = lambda: 600.0
    end: Callable[[WorkerFailedError], None] = _end_with

    @property
    def addresses(self) -> tuple[str, ...]:
        """The workers' `host:port`; empty where there is one worker."""
        return () if self.cluster is None else tuple(str(address) for address in self.cluster.workers)

    @property
    def scratch_folder(self) -> Path:
        """The folder with the file of what `--offload` keeps on disk."""
        return Path.cwd()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host of each worker."""
        return ("",) if self.cluster is None else tuple(address.host for address in self.cluster.workers)

    @property
    def num_workers(self) -> int:
        """Workers of the job."""
        return max(1, len(self.addresses))


@dataclass(frozen=True, kw_only=True)
class LaunchedWorkerContext(WorkerContext):
    """The place of a worker that `tfdist train` started.

    Attributes:
        assignment: What its launcher told it.
        link: Its connection to the launcher.
    """

    assignment: Assignment
    link: LauncherLink

    @property
    def scratch_folder(self) -> Path:
        """The run directory, which each host has."""
        return Path(self.assignment.run_dir)


def context_of(assignment: Assignment) -> LaunchedWorkerContext:
    """The context of the worker that has this assignment.

    Raises:
        RunDirError: The run directory cannot be written.
    """
    link = link_of(assignment)
    return LaunchedWorkerContext(
        assignment.index,
        None if assignment.cluster is None else Cluster.parse(assignment.cluster),
        options=assignment,
        links=tuple(LinkEnds.of(assignment.index, assignment.linked, fds) for fds in assignment.links),
        host_workers=assignment.host_workers,
        feed_sockets=assignment.feed_sockets,
        timeout=lambda: _watchdog_seconds(assignment, link),
        end=lambda error: os._exit(report(error, assignment)),
        assignment=assignment,
        link=link,
    )


def _watchdog_seconds(assignment: Assignment, link: LauncherLink) -> float:
    """Returns how long a call into TensorFlow may take now; a launcher, if there is one, reports a hang first."""
    limit = link.activity.limit
    seconds = assignment.first_step_timeout if limit is None else limit
    return seconds if link.channel is None else seconds + _LAUNCHER_SECONDS
