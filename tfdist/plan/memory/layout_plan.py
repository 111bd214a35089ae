"""Plans what workers hold and send of weights that are cut by layouts, layer by layer."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfdist.plan.memory.model_state import ModelState, fullest_model_state
from tfdist.plan.memory.step_sizes import WeightSizes
from tfdist.sharding.sharding_mode import CUT, WHOLE_BELOW, ShardMode


@dataclass(frozen=True)
class PlannedWeight:
    """A weight and what a worker has of it, in bytes: of several slices of the largest.

    Attributes:
        path: Its path in the model.
        shape: Its shape.
        slices: Along each of its axes, in how many slices it is cut.
        reason: Why it is cut so.
        computed: How its layer computes with it.
        parameters: Of the weight.
        gradients: Of its gradient.
        optimizer: Of the optimizer's state.
        sent: What a worker sends in a step, about, for the weight and its gradient.
        rows: What it sends of rows with which the layer computes in slices, about; 0 where that is not known.
    """

    path: str
    shape: tuple[int, ...]
    slices: tuple[int, ...]
    reason: str
    computed: str
    parameters: int
    gradients: int
    optimizer: int
    sent: int
    rows: int = 0

    @property
    def held(self) -> int:
        """Bytes of the weight, its gradient and the state."""
        return self.parameters + self.gradients + self.optimizer


@dataclass(frozen=True)
class LayoutPlan:
    """The layouts of a model's weights.

    Attributes:
        workers: Of the run.
        shares: Workers that share each weight.
        weights: All weights that are trained.
        findings: What is of no use in the layout map of the script, in sentences.
        largest_layer: Bytes of the weights of a layer, and of their gradients, that are whole at a time.
        mode: Of `--shard`, beside the layouts.
    """

    workers: int
    shares: int
    weights: tuple[PlannedWeight, ...]
    findings: tuple[str, ...]
    largest_layer: int
    mode: ShardMode = "none"

    @property
    def state(self) -> ModelState:
        """The bytes of the fullest worker."""
        names = ("parameters", "gradients", "optimizer")
        held = {name: sum(getattr(each, name) for each in self.weights) for name in names}
        return ModelState(**held, whole_layer=self.largest_layer)

    @property
    def sent(self) -> int:
        """Bytes that a worker sends in a step for weights and gradients, about."""
        return sum(weight.sent for weight in self.weights)

    @property
    def rows(self) -> int:
        """Bytes of rows that a worker sends in a step, about."""
        return sum(weight.rows for weight in self.weights)

    def to_json(self) -> dict[str, Any]:
        """The plan in JSON's types."""
        state = dataclasses.asdict(self.state)
        return {**dataclasses.asdict(self), "state": state, "sent": self.sent, "rows": self.rows}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LayoutPlan:
        """The plan that `to_json` made a value of."""
        weights = (
            PlannedWeight(**{**each, "shape": tuple(each["shape"]), "slices": tuple(each["slices"])})
            for each in value["weights"]
        )
        whole = {name: value[name] for name in ("workers", "shares", "largest_layer", "mode")}
        return cls(**whole, weights=tuple(weights), findings=tuple(value["findings"]))


def plan_layouts(
    weights: Sequence[WeightSizes], workers: int, shares: int, findings: Sequence[str] = (), mode: ShardMode = "none"
) -> LayoutPlan:
    """Plans what workers hold and send.

    Args:
        weights: Those that are trained, each with its layout.
        workers: Of the run.
        shares: Workers that share each weight.
        findings: What to say of the layout map.
        mode: Of `--shard`, beside the layouts.
    """
    planned = tuple(_planned(weight, workers, mode) for weight in weights)
    return LayoutPlan(workers, shares, planned, tuple(findings), _largest_layer(weights), mode)


def _planned(weight: WeightSizes, workers: int, mode: ShardMode) -> PlannedWeight:
    slices = weight.slices or (1,) * len(weight.value.shape)
    held = fullest_model_state(mode, [replace(weight, slices=slices)], "elements", workers)
    return PlannedWeight(
        path=weight.path,
        shape=weight.value.shape,
        slices=slices,
        reason=weight.layout,
        computed=weight.computed,
        parameters=held.parameters,
        gradients=held.gradients,
        optimizer=held.optimizer,
        sent=_sent(weight, math.prod(slices), workers, mode),
        rows=weight.rows.sent_among(math.prod(slices)),
    )


def _sent(weight: WeightSizes, shares: int, workers: int, mode: ShardMode) -> int:
    """Bytes that a worker sends in a step by rings, about.

    A weight that is gathered is so forward and backward, and its gradient is summed into slices; then workers with the
    same slice sum that. Slices with which a layer computes are not sent, but for these sums.
    """
    is_cut = "parameters" in CUT[mode] and math.prod(weight.value.shape) >= WHOLE_BELOW
    # In full, then the new weights; or each worker's part of both; or the weights forward and backward, and a part.
    passes = 3 if shares == 1 and (mode == "zero1" or is_cut) else 2
    gradient = _of_ring(weight.gradient / shares, workers // shares, passes)
    if weight.computed == "gathered":
        gradient += _of_ring(weight.gradient, shares) + _of_ring(weight.value.bytes, shares, passes=2)
    return round(gradient)


def _of_ring(size: float, members: int, passes: int = 1) -> float:
    return passes * size * (members - 1) / members


def _largest_layer(weights: Sequence[WeightSizes]) -> int:
    """Bytes at most of the weights of one layer that are gathered, and of their gradients."""
    of_layers: dict[str, int] = defaultdict(int)
    for weight in weights:
        if weight.computed == "gathered":
            of_layers[weight.path.rpartition("/")[0]] += weight.value.bytes + weight.gradient
    return max(of_layers.values(), default=0)
