"""Tries out loops of the user's: do the gradients that optimizers get of two replicas add up to those of one device?"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import of_own_loop, replica_step
from tfdist.keras_repairs.coupling.trials.foreign_variables import ForeignVariable, handles_of
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    EQUAL,
    OF_NETWORKS,
    TOLERANCE,
    UNEQUAL,
    Split,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.steps.gradient_slices import (
    Slices,
    added,
    are_same,
    largest_of,
    sampled,
    slices_of,
)
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE, Update
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial
from tfdist.runtime import random_state

Function = Callable[..., Any]

_LARGE = 1e4
"""Gradients so many times as large are beyond what a loop clips them to."""

_LARGE_TERMS = 1e8
"""Beside terms so many times as large as they are the loss of the data is nothing."""

_NUMBERS = (Numbers.PROPER, Numbers.LARGE, Numbers.NORMAL)
"""A loop may fail on some numbers, and a softmax of large ones may have no gradient."""


class CannotBeTried(Exception):
    """Nothing was learned of a function: it fails, or, as the message says, it must not be run."""


class Finding(enum.Enum):
    """What gradients of replicas are that do not add up to those of one device."""

    MEANS = "those of a mean over a replica's own samples, divided by the number of replicas or not"
    CONSTANTS = "in part the same for any samples, as those of a penalty on weights, or of samples that are no input"
    OTHERS = "anything else"


@dataclass(frozen=True)
class LoopVerdict:
    """What is wrong with the gradients that an optimizer gets in a loop of the user's.

    Attributes:
        optimizer: Its name.
        finding: What they are.
        is_of_terms: Whether that is so of the terms alone that layers have added to the loss.
    """

    optimizer: str
    finding: Finding
    is_of_terms: bool = False


class LoopTrial:
    """A function that a loop runs on each replica, and what it can reach.

    Args:
        function: Called with a replica's piece of a batch.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._kept = KeptState(function, *random_state.global_generators())
        self._reads_terms = False
        self._hindrance = ""

    @property
    def is_built(self) -> bool:
        """True if it makes no more variables, which must not happen in a trial, as far as can be seen."""
        layers = self._layers()
        return bool(layers) and all(layer.built for layer in layers)

    def _layers(self) -> list[keras.layers.Layer]:
        return [value for value in self._kept.values if isinstance(value, keras.layers.Layer)]

    def verdicts(self, args: Any, kwargs: Any, *, are_equal: bool) -> list[LoopVerdict]:
        """Returns what is wrong with the gradients that optimizers get; nothing where nothing is known to be.

        They are added up, and add up to those of one device where replicas take sums, divided by what the global batch
        has. Terms that layers add are looked at apart: they may be small beside the loss of the data.

        Args:
            args: What the function is called with, of which structure, shapes and dtypes count. Tensors with a first
                dimension of any size have a row for each sample.
            kwargs: Likewise, by name.
            are_equal: Whether all replicas have as many samples.

        Raises:
            CannotBeTried: The function fails on made-up values, or nothing can be made up.
        """
        split = EQUAL if are_equal else UNEQUAL
        try:
            inputs = [made_up((args, kwargs), numbers, only_of_any_size=True) for numbers in _NUMBERS]
            return self._verdicts(inputs, split)
        except (ValueError, UnsupportedError) as error:
            raise CannotBeTried from error

    def _verdicts(self, inputs: Sequence[Inputs], split: Split) -> list[LoopVerdict]:
        of_data = in_trial(lambda: self._verdict(inputs, split, of_terms=False))
        # What clips the gradient of the loss clips that of the terms as well.
        if not self._reads_terms or (of_data is not None and of_data.finding is Finding.OTHERS):
            return [] if of_data is None else [of_data]
        of_terms = in_trial(lambda: self._verdict(inputs, split, of_terms=True))
        return [verdict for verdict in (of_data, of_terms) if verdict is not None]

    def _verdict(self, inputs: Sequence[Inputs], split: Split, *, of_terms: bool) -> LoopVerdict | None:
        layers = self._layers()
        tolerance = OF_NETWORKS * max((tolerance_of(layer) for layer in layers), default=TOLERANCE)
        terms, tried = _LARGE_TERMS if of_terms else 0.0, 0
        large: list[_Compared] = []
        for each in inputs:
            # Of larger gradients, to see what a loop clips, and as they are.
            for scale in (_LARGE, 1.0):
                compared = self._tried(each, scale, terms, split, tolerance)
                if compared is None:
                    continue
                tried += 1
                if scale == _LARGE:
                    if not large and compared.optimizers and all(found is None for found in compared.findings):
                        return None
                    large.append(compared)
                elif Finding.MEANS in compared.findings:
                    optimizer = compared.optimizers[compared.findings.index(Finding.MEANS)]
                    return LoopVerdict(optimizer, Finding.MEANS, of_terms)
            found = _found_in_both(large[0], large[-1], tolerance) if len(large) > 1 else None
            if found is not None:
                return LoopVerdict(*found, of_terms)
        if not tried:
            raise CannotBeTried(self._hindrance)
        return None

    def _tried(
        self, inputs: Inputs, scale: float, terms: float, split: Split, tolerance: float
    ) -> _Compared | None:
        def updates(part: slice, _: Assignments) -> list[Update]:
            args, kwargs = inputs.rows(part)
            # A loop has no step: it scales its losses itself, as TensorFlow's guides have it.
            with replica_step(None), of_own_loop(), capturing(scale, terms=terms) as capture:
                self._function(*args, **kwargs)
            self._reads_terms |= capture.reads_terms
            return [sampled(update) for update in capture.updates]

        try:
            # What is drawn beside the samples is the same each time.
            with random_state.kept(), changing(TRIAL_SCOPE, handles=handles_of(self._kept.variables_of_all())):
                results = on_one_and_two(updates, self._kept, users=False, split=split)
            return _compared(results, tolerance, split)
        except ForeignVariable as error:
            self._hindrance = str(error)
            return None
        except Exception:  # Whatever the user's code raises on values that are not its own.
            return None


@dataclass(frozen=True)
class _Compared:
    """The gradients of one replica beside those of two.

    Attributes:
        optimizers: Which got them, one for each update of which something is seen.
        findings: What each of these is; None where they add up.
        excesses: By how much those of the parts, added up, are more than those of the whole batch.
        sizes: The largest number in each.
    """

    optimizers: list[str]
    findings: list[Finding | None]
    excesses: list[list[Slices]]
    sizes: list[float]


def _compared(updates: OneAndTwo[list[Update]], tolerance: float, split: Split) -> _Compared:
    compared = _Compared([], [], [], [])
    if any(len(part) != len(updates.whole) for part in updates.parts):
        return compared
    for whole, *parts in zip(updates.whole, *updates.parts, strict=True):
        # A loop may be given what are no samples: of made-up rows it gets gradients of another shape.
        if any(_shapes(part) != _shapes(whole) for part in parts):
            continue
        gradients, of_parts = slices_of(whole), [slices_of(part) for part in parts]
        largest = largest_of(gradients)
        if not largest or not math.isfinite(largest):
            continue
        compared.optimizers.append(whole.optimizer)
        compared.findings.append(_finding(gradients, of_parts, tolerance * largest, split))
        compared.excesses.append(_together([*of_parts, gradients], (1.0, 1.0, -1.0)))
        compared.sizes.append(largest)
    return compared


def _finding(whole: list[Slices], parts: Sequence[list[Slices]], allowed: float, split: Split) -> Finding | None:
    def is_whole(first: float, second: float) -> bool:
        return are_same(whole, _together(parts, (first, second)), allowed)

    # What is divided by the number of replicas, of which a trial has two, is half as much in each part.
    if is_whole(1.0, 1.0) or is_whole(2.0, 2.0):
        return None
    one, other = parts
    if are_same(one, other, allowed):
        return Finding.CONSTANTS
    first, second = split.shares
    if is_whole(first, second) or is_whole(2 * first, 2 * second):
        return Finding.MEANS
    return Finding.OTHERS


def _found_in_both(one: _Compared, other: _Compared, tolerance: float) -> tuple[str, Finding] | None:
    """Returns the first optimizer whose gradients add up neither of these samples nor of those, and what they are."""
    if one.optimizers != other.optimizers:
        return None
    for place, optimizer in enumerate(one.optimizers):
        findings = {one.findings[place], other.findings[place]}
        # Beside large gradients a constant is not seen, and of large numbers a softmax may have none.
        if None in findings:
            continue
        allowed = tolerance * max(one.sizes[place], other.sizes[place])
        if are_same(one.excesses[place], other.excesses[place], allowed):
            return optimizer, Finding.CONSTANTS
        # Of other samples, and the same in both parts: reduced by hand, and shared out by a number that the loop knows.
        if Finding.CONSTANTS not in findings:
            return optimizer, Finding.OTHERS
    return None


def _together(updates: Sequence[list[Slices]], weights: Sequence[float]) -> list[Slices]:
    return [added(pieces, weights) for pieces in zip(*updates, strict=True)]


def _shapes(update: Update) -> list[Any]:
    return [gradient.shape if isinstance(gradient, tf.Tensor) else None for gradient in update.gradients]
