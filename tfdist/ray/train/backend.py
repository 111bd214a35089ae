"""The backend of Ray Train that forms a job of tfdist from Ray's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_options import WorkerOptions
from tfdist.ray.train.worker_run import worker_run
from tfdist.ray.train.worker_setup import WorkerPlace, assign, make_run_dir, take_place


@dataclass
class TfdistBackendConfig(BackendConfig):
    """Has the workers of a trainer train with tfdist.

    Attributes:
        options: Of all workers.
        seed: The run's; None to draw one.
        name: What the training function is called.
    """

    options: WorkerOptions = field(default_factory=WorkerOptions)
    seed: int | None = None
    name: str = "train"

    @property
    def backend_cls(self) -> type[Backend]:
        return TfdistBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[None]]:
        return worker_run


class TfdistBackend(Backend):
    """Gives Ray's workers their places in a job of tfdist, at the start and after each restart."""

    def on_training_start(self, worker_group: Any, backend_config: TfdistBackendConfig) -> None:
        """Forms the job, before the training function runs."""
        options = backend_config.options
        places: list[WorkerPlace] = worker_group.execute(take_place, options.kernels)
        _check_versions(places)
        common = worker_group.execute_single(0, make_run_dir, backend_config.seed)
        # Every worker computes by the kernels of the chief's node.
        common |= {**options.worker_options(), "kernels": places[0].kernels}
        found = assignments(places, backend_config.name, common)
        ray.get([worker_group.execute_single_async(each.index, assign, each) for each in found])


def assignments(places: Sequence[WorkerPlace], name: str, common: dict[str, Any]) -> list[Assignment]:
    """What each worker is told.

    Args:
        places: Of the workers, in the order of their ranks.
        name: Of the training function.
        common: Fields of every worker's.
    """
    hosts = [place.address.rpartition(":")[0] for place in places]
    sizes, seen = Counter(hosts), Counter[str]()
    cluster = ",".join(place.address for place in places) if len(places) > 1 else None
    found = []
    for index, (place, host) in enumerate(zip(places, hosts, strict=True)):
        found.append(
            Assignment(
                index=index,
                num_workers=len(places),
                target_kind="module",
                target=name,
                local_rank=seen[host],
                local_size=sizes[host],
                # Ray shows each worker the GPUs that it has given to it.
                own_gpus=True,
                address=place.address if cluster else None,
                cluster=cluster,
                **common,
            )
        )
        seen[host] += 1
    return found


def _check_versions(places: Sequence[WorkerPlace]) -> None:
    for place in places[1:]:
        if place.version != places[0].version:
            raise UsageError(
                f"{place.host} has tfdist {place.version}, and {places[0].host} has {places[0].version}. Expected the "
                "same version on every node."
            )
