"""Plan of a script's first `fit`: what a few of its steps have shown, and what follows from that. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.order.epoch_order import bounds
from tfdist.plan.memory.layout_plan import LayoutPlan
from tfdist.plan.plan import BatchSizes

_NOT_OF_EXACTNESS = ("strategy ", "kept to the cores ", "tfdist: ")
"""The beginnings of lines that say of a run on what it computes."""


@dataclass(frozen=True)
class FitPlan:
    """The known facts about a `fit` after a few steps.

    Attributes:
        target: The script or module.
        found: What the chief has found out, as `training.rehearsal.fit_planner` writes it.
    """

    target: str
    found: Mapping[str, Any]

    @property
    def replicas(self) -> int:
        """Devices that train in sync, over all workers."""
        return int(self.found["replicas"])

    @property
    def workers(self) -> int:
        """Workers of the job."""
        return int(self.found["workers"])

    @property
    def batch_size(self) -> int:
        """Samples of a global batch; where nothing says it, the most of the steps that were tried."""
        at_once = self.found["model"]["steps_per_execution"]
        most = max(self.found["tried"]["samples"], default=0) / at_once
        return int(self.found["data"]["batch_size"] or round(most))

    @property
    def batch(self) -> BatchSizes:
        """The sizes in which a global batch is dealt to the replicas."""
        return BatchSizes.deal(self.batch_size, self.replicas)

    @property
    def rows(self) -> Sequence[int]:
        """Samples of a global batch on each worker."""
        size, each = self.batch_size, self.replicas // self.workers
        ends = [bounds(size, self.replicas, replica) for replica in range(self.replicas)]
        return [ends[(worker + 1) * each - 1][1] - ends[worker * each][0] for worker in range(self.workers)]

    @property
    def tail(self) -> BatchSizes | None:
        """The last batch of an epoch where it is smaller; None where it is not, or that is not known."""
        samples = self.found["data"]["samples"]
        rest = samples % self.batch_size if samples and self.batch_size else 0
        return BatchSizes.deal(rest, self.replicas) if rest else None

    @property
    def first_seconds(self) -> float:
        """Seconds of the first step, which compiles, and is checked before it is made."""
        return float(self.found["seconds"][0])

    @property
    def step_seconds(self) -> float | None:
        """Seconds of a step, the median of those after the first; None where one was made."""
        later = self.found["seconds"][1:]
        at_once = self.found["model"]["steps_per_execution"]
        return statistics.median(later) / at_once if later else None

    @property
    def epoch_seconds(self) -> float | None:
        """Seconds of the steps of an epoch by that."""
        steps, seconds = self.found["data"]["steps"], self.step_seconds
        return steps * seconds if steps and seconds is not None else None

    @property
    def held(self) -> Mapping[str, int]:
        """Bytes on a device in the run's mode of `--shard`; see `ModelState`."""
        memory = self.found["memory"]
        return dict(memory["modes"][memory["mode"]])

    @property
    def layouts(self) -> LayoutPlan | None:
        """The layouts of weights; None where none is cut by one."""
        found = self.found["memory"].get("layouts")
        return None if found is None else LayoutPlan.from_json(found)

    @property
    def notes(self) -> Sequence[Mapping[str, str]]:
        """The findings on the exactness of parts, in the order in which they were found."""
        lines: Sequence[Mapping[str, str]] = self.found["notes"]
        return [line for line in lines if not line["text"].startswith(_NOT_OF_EXACTNESS)]

    def to_json(self) -> dict[str, Any]:
        """The plan in JSON's types; sizes in bytes, times in seconds."""
        tail = self.tail
        last = None if tail is None else tail.samples
        data = {**self.found["data"], "batch_size": self.batch_size, "last_batch": last}
        memory = self.found["memory"]
        return {
            "target": self.target,
            "on": self.found["on"],
            "workers": self.workers,
            "replicas": self.replicas,
            "epochs": self.found["epochs"],
            "data": data,
            "rows": list(self.rows),
            "model": dict(self.found["model"]),
            "memory": {**self.held, "other": memory["other"], "peak": memory["peak"], "modes": memory["modes"]},
            "layouts": memory.get("layouts"),
            "sends": None if self.replicas == 1 else {"gradients": memory["gradients"], "shard": memory["mode"]},
            "seconds": {"first_step": self.first_seconds, "step": self.step_seconds, "epoch": self.epoch_seconds},
            "exactness": [dict(line) for line in self.notes],
        }
