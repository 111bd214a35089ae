"""The state that workers hold of a training between its steps: weights and the optimizer's state, and gradients."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tfdist.plan.memory.step_sizes import TensorSize, WeightSizes
from tfdist.sharding.axis_cut import further_axis
from tfdist.sharding.cut import Cut, evenly, owners, rows_evenly, uncut
from tfdist.sharding.sharding_mode import CUT, WHOLE_BELOW

Held: TypeAlias = tuple[int, int, int]
"""Bytes of a weight, of its gradient and of the optimizer's state beside it."""


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
        weights: The weights that are trained. What a layout cuts is in slices in every mode.
        kind: How the optimizer's state can be cut: between `elements`, or between `variables`; None where nothing is.
        workers: How many share what the mode cuts.
    """
    cut = CUT[mode]
    cuts = _cuts(weights, kind, workers)
    layer = _largest_layer(weights) if "parameters" in cut else 0
    found = []
    for worker in range(workers):
        of_each = [
            _held_by_layout(weight, parts, worker, cut, kind)
            if weight.is_laid_out and not weight.by_rows
            else _held(weight, parts, worker, cut)
            for weight, parts in zip(weights, cuts, strict=True)
        ]
        parameters, gradients, optimizer = (sum(held[place] for held in of_each) for place in range(3))
        found.append(ModelState(parameters, gradients, optimizer, layer))
    return found


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


def _held(weight: WeightSizes, parts: Cut, worker: int, cut: frozenset[str]) -> Held:
    """Bytes of a weight, its gradient and the state beside it on a worker, in a mode that cuts some of them."""
    part, all_of_it = parts.shard_size(worker), max(parts.size, 1)
    of_value = weight.by_rows or ("parameters" in cut and parts.size >= WHOLE_BELOW)
    of_state = weight.by_rows or "optimizer" in cut
    return (
        _share(weight.value.bytes, part, all_of_it, of_value),
        # That of a table is sparse, and goes to its owners row by row.
        _share(weight.gradient, part, all_of_it, "gradients" in cut and not weight.by_rows),
        sum(_slot_share(slot, weight.value, part, all_of_it, of_state) for slot in weight.slots),
    )


def _held_by_layout(weight: WeightSizes, parts: Cut, worker: int, cut: frozenset[str], kind: str | None) -> Held:
    """The same of a weight that a layout cuts: of several slices of the largest."""
    shape, all_of_it = weight.value.shape, max(parts.size, 1)
    stored = _sliced(shape, weight.slices)
    updated = _sliced(shape, _slices_of_state(weight, parts.workers)) if "optimizer" in cut else stored
    # Of an optimizer that needs whole variables one worker has the state.
    of_state = parts.shard_size(worker) if kind == "variables" else updated
    return (
        stored * weight.value.itemsize,
        _share(weight.gradient, updated, all_of_it, is_cut=True),
        sum(_slot_share(slot, weight.value, of_state, all_of_it, is_cut=True) for slot in weight.slots),
    )


def _slices_of_state(weight: WeightSizes, workers: int) -> tuple[int, ...]:
    """Along each axis of a weight, in how many slices its state is cut, which workers with the same slice share out."""
    alike = workers // math.prod(weight.slices)
    cut = [axis for axis, count in enumerate(weight.slices) if count > 1]
    further = further_axis(weight.value.shape, cut, alike) if alike > 1 else None
    return tuple(alike if axis == further else count for axis, count in enumerate(weight.slices))


def _sliced(shape: tuple[int, ...], slices: tuple[int, ...]) -> int:
    """Elements of the largest slice."""
    return math.prod(-(-length // count) for length, count in zip(shape, slices, strict=True))


def _largest_layer(weights: Sequence[WeightSizes]) -> int:
    """Bytes at most of the weights of one layer that are cut, and of their gradients.

    What is computed again has all its weights whole for its backward pass, and one layer's gradients after another.
    """
    values: dict[str | int, int] = defaultdict(int)
    gradients: dict[str | int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for weight in weights:
        if math.prod(weight.value.shape) >= WHOLE_BELOW and not (weight.by_rows or weight.is_laid_out):
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
