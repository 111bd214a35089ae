"""A job on a Ray cluster: what is asked for, and its run from the placement group to the exit code."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.errors import UsageError
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.net import shared_token
from tfdist.ray.job.actors import gpu_variables, make_actors
from tfdist.ray.job.driving import Driving, Ending, OwnStreams, answers, exit_code, killed_text, lost_text
from tfdist.ray.job.placement import Demand, NodeWorkers, lay_out, placed, worker_list
from tfdist.ray.ray_library import connected
from tfdist.versions import VERSION

LAUNCHER_MODULE = "tfdist.cli.launch.bound_launcher"


@dataclass(frozen=True)
class RayJob:
    """The job that `tfdist launch --on ray` is asked for.

    Attributes:
        demand: The workers, and what each needs.
        arguments: What follows `tfdist train --workers LIST` on every node: options and target.
        address: Of the cluster; `auto` for that of RAY_ADDRESS or of this machine.
        directory: Where the launchers work; None for where this process does, or for what the Ray job has uploaded.
        variables: Variables for the workers of all nodes, besides those that a node has.
        grace: Seconds that the workers have to stop.
        launcher_module: The launcher of a node, which ends with its stdin.
    """

    demand: Demand
    arguments: tuple[str, ...]
    address: str = "auto"
    directory: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    grace: float = 30.0
    launcher_module: str = LAUNCHER_MODULE


def run_ray_job(job: RayJob) -> int:
    """Runs a job on a Ray cluster to its end.

    Returns:
        The exit code: that of `tfdist train` on the chief's node; 4 where a node or an actor was lost; 128 and the
        number of the signal that stopped it.

    Raises:
        UsageError: Ray is not installed, or nodes have another version of tfdist or lack the directory.
        FormingError: No cluster answers, or it has no room in time.
        WorkerFailedError: A node was lost before its launcher had started.
    """
    streams = OwnStreams()
    # After Ray, which has a handler of its own for SIGTERM.
    with connected(job.address) as ray, Signals() as signals:
        try:
            with placed(ray, job.demand, _say, signals.check) as (group, where):
                layout = lay_out(where, ray.util.get_node_ip_address())
                actors = make_actors(ray, group, layout, job.demand)
                _start(ray, actors, job, gpu_variables(ray, group, actors, job.demand))
                endings = Driving(ray, actors, signals, job.grace, streams).run()
        except LauncherStopped as stopped:
            print(f"stopped: {stopped}; nothing was started", file=sys.stderr, flush=True)
            return stopped.exit_code
        stopped_by = signals.received[0] if signals.received else None
    for ending in endings:
        _report(ending)
    return exit_code(endings, stopped_by)


def _start(
    ray: Any, actors: Mapping[NodeWorkers, Any], job: RayJob, gpus: Mapping[NodeWorkers, Mapping[str, str]]
) -> None:
    """Starts the launcher of each machine, with ports that are free there."""
    layout = tuple(actors)
    versions = answers(ray, [actor.version.remote() for actor in actors.values()], layout)
    for machine, version in zip(layout, versions, strict=True):
        if version != VERSION:
            raise UsageError(
                f"{machine.node} has tfdist {version}. Expected {VERSION}, that of this process, on every node."
            )
    ports = answers(ray, [actors[machine].lease.remote(len(machine.bundles)) for machine in layout], layout)
    workers = worker_list(layout, ports)
    token = {shared_token.VARIABLE: secrets.token_hex(32)}
    started = [
        actor.start.remote(
            job.launcher_module,
            ["train", "--workers", workers, *job.arguments],
            {**job.variables, **token, **gpus[machine]},
            _directory(ray) if job.directory is None else job.directory,
        )
        for machine, actor in actors.items()
    ]
    answers(ray, started, layout)


def _directory(ray: Any) -> str | None:
    """Where launchers work: where this process does, unless the Ray job has a folder of its own on every node."""
    return None if ray.get_runtime_context().runtime_env.get("working_dir") else os.getcwd()


def _say(text: str) -> None:
    print(f"tfdist: {text}", file=sys.stderr, flush=True)


def _report(ending: Ending) -> None:
    text = lost_text(ending) if ending.lost else killed_text(ending)
    if text is not None:
        print(text, file=sys.stderr, flush=True)
