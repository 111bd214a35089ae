"""The state that workers hold of a training between its steps: weights and the optimizer's state, and gradients."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.plan.memory.step_sizes import TensorSize, WeightSizes
from tfdist.sharding.cut import Cut, evenly, owners, rows_evenly, uncut
from tfdist.sharding.sharding_mode import CUT, WHOLE_BELOW


@dataclass(frozen=True)
class ModelState:
    """Bytes on one worker in one mode of `--shard`.

    Attributes:
        parameters: Weights that are trained.
        gradients: Their gradients.
        optimizer: The optimizer's state beside them.
        whole_layer: Weights of the largest layer, or of the largest block that is computed again, and gradients of a
            layer, which are whole meanwhile; 0 where weights are not cut.
    """

    parameters: int
    gradients: int
    optimizer: int
    whole_layer: int

    @property
    def between_steps(self) -> int:
        """The bytes that are there at any time, from the first step on."""
        return self.parameters + self.optimizer

    @property
    def total(self) -> int:
        """All of it."""
        return self.between_steps + self.gradients + self.whole_layer


def fullest_model_state(mode: str, weights: Sequence[WeightSizes], kind: str | None, workers: int) -> ModelState:
    """Returns what the fullest of some workers holds; see `model_states`."""
    return max(
        model_states(mode, weights, kind, workers), key=lambda held: held.parameters + held.gradients + held.optimizer
    )


def model_states(mode: str, weights: Sequence[WeightSizes], kind: str | None, workers: int) -> list[ModelState]:
    """Returns what each of some workers holds, in their order.

    Args:
        mode: Of `--shard`.
        weights: The weights that are trained.
        kind: How the optimizer's state can be cut: between `elements`, or between `variables`; None where nothing is.
        workers: How many share what the mode cuts.
    """
    cut = CUT[mode]
    cuts = _cuts(weights, kind, workers)
    layer = _largest_layer(weights) if "parameters" in cut else 0
    return [ModelState(*_held(weights, cuts, worker, cut), layer) for worker in range(workers)]


def _cuts(weights: Sequence[WeightSizes], kind: str | None, workers: int) -> Sequence[Cut]:
    """Returns how the weights are cut, as a run cuts them."""
    shapes = [weight.value.shape for weight in weights]
    if kind != "variables":
        cuts = [evenly(shape, workers) for shape in shapes]
    else:
        having = owners([math.prod(shape) for shape in shapes], workers)
        cuts = [uncut(shape, owner, workers) for shape, owner in zip(shapes, having, strict=True)]
    return [
        rows_evenly(weight.value.shape, workers) if weight.by_rows else cut
        for weight, cut in zip(weights, cuts, strict=True)
    ]


def _held(
    weights: Sequence[WeightSizes], cuts: Sequence[Cut], worker: int, cut: frozenset[str]
) -> tuple[int, int, int]:
    """Bytes of weights, gradients and state on a worker."""
    parameters = gradients = optimizer = 0
    for weight, parts in zip(weights, cuts, strict=True):
        part, all_of_it = parts.shard_size(worker), max(parts.size, 1)
        of_value = weight.by_rows or ("parameters" in cut and parts.size >= WHOLE_BELOW)
        of_state = weight.by_rows or "optimizer" in cut
        parameters += _share(weight.value.bytes, part, all_of_it, of_value)
        # That of a table is sparse, and goes to its owners row by row.
        gradients += _share(weight.gradient, part, all_of_it, "gradients" in cut and not weight.by_rows)
        optimizer += sum(_slot_share(slot, weight.value, part, all_of_it, of_state) for slot in weight.slots)
    return parameters, gradients, optimizer


def _largest_layer(weights: Sequence[WeightSizes]) -> int:
    """Bytes at most of the weights of one layer that are cut, and of their gradients.

    What is computed again has all its weights whole for its backward pass, and one layer's gradients after another.
    """
    values: dict[str | int, int] = defaultdict(int)
    gradients: dict[str | int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for weight in weights:
        if math.prod(weight.value.shape) >= WHOLE_BELOW and not weight.by_rows:
            layer = weight.path.rpartition("/")[0]
            together = layer if weight.recomputed_in is None else weight.recomputed_in
            values[together] += weight.value.bytes
            gradients[together][layer] += weight.gradient
    return max((values[together] + max(gradients[together].values()) for together in values), default=0)


def _slot_share(slot: TensorSize, value: TensorSize, part: int, all_of_it: int, is_cut: bool) -> int:
    # What is one number for a weight is on each worker that has any of it.
    if is_cut and not slot.shape and value.shape:
        return slot.bytes if part else 0
    return _share(slot.bytes, part, all_of_it, is_cut)


def _share(size: int, part: int, all_of_it: int, is_cut: bool) -> int:
    return -(-size * part // all_of_it) if is_cut else size
