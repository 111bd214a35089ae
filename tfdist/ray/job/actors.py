"""The actors of a job: one on each machine, and the GPUs that Ray gives to the workers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.ray.job.driving import answers
from tfdist.ray.job.layout import NodeWorkers
from tfdist.ray.job.node_actor import NodeActor
from tfdist.ray.job.placement import Demand

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = 4
"""Of an actor: a signal must not wait for `events`."""


def make_actors(ray: Any, group: Any, layout: Sequence[NodeWorkers], demand: Demand) -> dict[NodeWorkers, Any]:
    """An actor for each machine, in the bundle of its first worker."""
    return {machine: _make(ray, group, machine.bundles[0], demand) for machine in layout}


def gpu_variables(
    ray: Any, group: Any, actors: Mapping[NodeWorkers, Any], demand: Demand
) -> dict[NodeWorkers, dict[str, str]]:
    """What shows each machine's launcher the GPUs of all of its workers, in their order; nothing without GPUs.

    A bundle has its GPUs as long as there is its placement group, so those that ask for them need not stay.

    Raises:
        TfdistError: An actor does not answer.
    """
    if not demand.gpus:
        return {machine: {} for machine in actors}
    asked = {
        machine: [actor, *(_make(ray, group, bundle, demand) for bundle in machine.bundles[1:])]
        for machine, actor in actors.items()
    }
    found = {}
    for machine, each in asked.items():
        lists = answers(ray, [actor.gpus.remote() for actor in each], [machine] * len(each))
        found[machine] = {_VISIBLE: ",".join(gpu for gpus in lists for gpu in gpus)}
        for helper in each[1:]:
            ray.kill(helper)
    return found


def _make(ray: Any, group: Any, bundle: int, demand: Demand) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    there = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
    options = {"num_cpus": demand.cpus, "num_gpus": demand.gpus, "max_concurrency": _THREADS}
    return ray.remote(**options, scheduling_strategy=there)(NodeActor).remote()
