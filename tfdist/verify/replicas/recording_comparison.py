"""Comparison of two recordings of one training, up to what rounding alone does to it: pure, on NumPy arrays.

That is measured by a second run on one replica with perturbed weights. Where gradients are rounding alone (the bias of
a layer before a normalization, of the keys of attention), optimizers that scale them take steps as large as elsewhere,
in a direction of their own in each run: such weights can never be compared. Other trainings multiply a rounding error
with every step. Both show here, for the very model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tfdist.training.probes.probe_files import Moment, Recording
from tfdist.verify.relative_difference import DATA_TOLERANCE, relative, relative_arrays, root_mean_square

QuantityKind = Literal["data", "loss", "gradient norm", "weights", "metrics", "copies", "steps"]
QUANTITY_KINDS: tuple[QuantityKind, ...] = ("data", "loss", "gradient norm", "weights", "metrics", "copies", "steps")
"""The quantities that are compared, causes before effects. Copies are the replicas' of one weight, within one run."""

FLOAT32 = 1e-5
"""The least relative tolerance: fifty times what rounding did to losses and weights of five models in five steps."""

HALF = 2e-2
"""The same where layers compute in 16 bits; of losses, gradient norms and metrics."""

MARGIN = 10
"""The multiple of the measured effect of rounding that is allowed: another order of the sums is another draw."""

_UNDECIDED = {False: 1e-2, True: 0.2}
"""The most that rounding may explain, in float32 and in 16 bits; beyond it, nothing can be said of a number."""
_LEAST_SCALE = 1e-3
"""Of the typical weight: the least magnitude that a difference is related to; a bias may hardly have moved from 0."""
_Quantity = tuple[QuantityKind, str, float, float | None, float | None]
_REPRODUCED = {False: 1e-3, True: 0.2}
"""A first step that differs by more, in float32 and in 16 bits, has another cause than rounding."""


@dataclass(frozen=True)
class Tolerance:
    """The difference that two numbers may have by rounding alone.

    Attributes:
        least: The least relative difference that is allowed.
        half: Whether layers compute in 16 bits, or workers send gradients so. Then the weights are not judged after the
            first step: the gradients of a small part of the batch are rounded to 16 bits before they are summed.
        measured: (number of the moment, kind, name) -> the relative difference that rounding alone made until then.
    """

    least: float = FLOAT32
    half: bool = False
    measured: Mapping[tuple[int, QuantityKind, str], float] = field(default_factory=dict)

    def compressed(self) -> Tolerance:
        """The same where workers send gradients in 16 bits."""
        return replace(self, least=max(self.least, HALF), half=True)

    def allowed(self, number: int, kind: QuantityKind, name: str) -> float:
        """The largest relative difference of a quantity at moment `number` that is rounding; inf for any."""
        if kind == "steps":
            return 0.0  # a different number of steps is never rounding
        if kind == "data":
            return DATA_TOLERANCE
        if kind == "copies" or (kind == "weights" and number == 0):
            # Copies of one variable, and weights that nothing has been added to yet, have not been rounded twice.
            return min(self.least, FLOAT32)
        if kind == "weights" and self.half:
            return math.inf
        by_rounding = MARGIN * self.measured.get((number, kind, name), 0.0)
        return math.inf if by_rounding > _UNDECIDED[self.half] else max(self.least, by_rounding)


@dataclass(frozen=True)
class Difference:
    """The difference of one quantity from the reference.

    Attributes:
        step: Steps trained until then.
        kind: The kind of quantity.
        name: A weight's path or a metric's name.
        relative: Difference over magnitude; 0 when equal, infinite when only one of both exists or is finite.
        allowed: The largest difference that is rounding; infinite where it is not judged.
        reference: The value on the reference, for kinds that have one number.
        other: The value on the other run.
    """

    step: int
    kind: QuantityKind
    name: str
    relative: float
    allowed: float
    reference: float | None = None
    other: float | None = None

    @property
    def is_beyond(self) -> bool:
        """True if it is beyond rounding."""
        return self.relative > self.allowed


@dataclass(frozen=True)
class ComparedMoment:
    """Both runs at one moment.

    Attributes:
        step: Steps trained until then; 0 before the first.
        differences: One for every quantity that both runs have.
    """

    step: int
    differences: tuple[Difference, ...]

    def of(self, *kinds: QuantityKind) -> list[Difference]:
        """The differences of some kinds, the largest first; those that are not judged come last."""
        chosen = [difference for difference in self.differences if difference.kind in kinds]
        return sorted(chosen, key=lambda d: (not math.isfinite(d.allowed), -d.relative))

    def parted(self, *kinds: QuantityKind) -> list[Difference]:
        """Differences beyond rounding, of some kinds or of all: causes before effects, then the largest first."""
        beyond = [difference for difference in self.of(*(kinds or QUANTITY_KINDS)) if difference.is_beyond]
        return sorted(beyond, key=lambda d: QUANTITY_KINDS.index(d.kind))


@dataclass(frozen=True)
class Comparison:
    """Two runs, moment by moment.

    Attributes:
        rows: One for each moment that both runs have.
    """

    rows: tuple[ComparedMoment, ...]

    @property
    def passed(self) -> bool:
        """True if the runs are the same, up to rounding, in everything."""
        return self.first_row is None

    @property
    def first_row(self) -> ComparedMoment | None:
        """The first moment with a difference beyond rounding."""
        return next((row for row in self.rows if row.parted()), None)

    def first(self, *kinds: QuantityKind) -> Difference | None:
        """The first difference beyond rounding, of some kinds or of all."""
        return next((found[0] for row in self.rows if (found := row.parted(*kinds))), None)

    def largest(self, *kinds: QuantityKind) -> Difference | None:
        """The largest difference of some kinds over all rows, of those that were judged."""
        judged = (d for row in self.rows for d in row.of(*kinds) if math.isfinite(d.allowed))
        return max(judged, key=lambda d: d.relative, default=None)


def compare(reference: Recording, workers: Sequence[Recording], tolerance: Tolerance) -> Comparison:
    """Compares a run with a reference.

    Args:
        workers: Every worker's recording of the other run, the chief's first.
        tolerance: How far rounding may go.
    """
    chief = workers[0]
    rows = []
    for number, (a, b) in enumerate(zip(reference.moments, chief.moments, strict=False)):
        quantities = list(_between(a, b))
        quantities += _among([worker.moments[number] for worker in workers if number < len(worker.moments)])
        if number + 1 == min(len(reference.moments), len(chief.moments)):
            quantities += _lengths(reference, workers)
        rows.append(
            ComparedMoment(a.step, tuple(_judged(a.step, quantity, number, tolerance) for quantity in quantities))
        )
    return Comparison(tuple(rows))


def _judged(step: int, quantity: _Quantity, number: int, tolerance: Tolerance) -> Difference:
    kind, name, distance, reference, other = quantity
    return Difference(step, kind, name, distance, tolerance.allowed(number, kind, name), reference, other)


def _between(a: Moment, b: Moment) -> Iterator[_Quantity]:
    """Yields what two runs differ in at one moment."""
    scalars: tuple[tuple[QuantityKind, float | None, float | None], ...] = (
        ("data", a.data, b.data),
        ("gradient norm", a.gradient_norm, b.gradient_norm),
    )
    for kind, x, y in scalars:
        if x is not None and y is not None:
            yield kind, kind, relative(x, y), x, y
    for name in _names(a.values, b.values):
        x, y = a.values.get(name), b.values.get(name)
        distance = math.inf if x is None or y is None else relative(x, y)
        yield "loss" if name == "loss" else "metrics", name, distance, x, y
    least = _least(a.weights)
    # Before the first step, the weights of a model without given shapes may be there on one run and not on the other.
    trained = a.values or a.data is not None
    paths = _names(a.weights, b.weights) if trained else [path for path in a.weights if path in b.weights]
    for path in paths:
        one, two = a.weights.get(path), b.weights.get(path)
        yield "weights", path, math.inf if one is None or two is None else relative_arrays(one, two, least), None, None


def _among(moments: Sequence[Moment]) -> Iterator[_Quantity]:
    """What the replicas of one run differ in: within each worker, and between the chief and each other worker."""
    chief = moments[0]
    least = _least(chief.weights)
    for path, weight in chief.weights.items():
        apart = max(moment.differences.get(path, 0.0) for moment in moments)
        scale = max(float(np.max(np.abs(weight[np.isfinite(weight)]), initial=0.0)), least)
        distances = [apart / scale if scale else math.inf] if apart else []
        distances += [relative_arrays(weight, moment.weights[path], least) for moment in moments[1:]]
        if distances:
            yield "copies", path, max(distances), None, None


def _lengths(reference: Recording, workers: Sequence[Recording]) -> Iterator[_Quantity]:
    other = next((worker for worker in workers if len(worker.moments) != len(reference.moments)), None)
    if other is not None:
        yield "steps", "steps", math.inf, reference.moments[-1].step, other.moments[-1].step


def _least(weights: Mapping[str, np.ndarray]) -> float:
    """The least magnitude that differences of a model's weights are related to."""
    elements = [array.astype(np.float64).ravel() for array in weights.values()]
    every = np.concatenate(elements) if elements else np.zeros(0)
    return _LEAST_SCALE * root_mean_square(every[np.isfinite(every)])


def _names(a: Mapping[str, object], b: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys([*a, *b]))


def reproduced(reference: Recording, perturbed: Recording, *, half: bool) -> Comparison:
    """Compares what two runs on one replica must have in common: initial weights, data, nearly the first step, length.

    Args:
        perturbed: The recording of the same run with weights moved after they were first recorded.
        half: Whether layers compute in 16 bits.
    """
    rows = compare(reference, [perturbed], Tolerance(_REPRODUCED[half], half=half)).rows
    first: tuple[QuantityKind, ...] = ("data", "loss", "gradient norm", "steps")
    later: tuple[QuantityKind, ...] = ("data", "steps")
    kinds: list[tuple[QuantityKind, ...]] = [("weights", "steps"), first, *[later] * len(rows)]
    return Comparison(tuple(ComparedMoment(row.step, tuple(row.of(*of))) for row, of in zip(rows, kinds, strict=False)))


def measure_tolerance(reference: Recording, perturbed: Recording, *, half: bool) -> Tolerance:
    """The tolerance for everything that is compared with `reference`."""
    least = HALF if half else FLOAT32
    worst: dict[tuple[QuantityKind, str], float] = {}
    measured = {}
    for number, row in enumerate(compare(reference, [perturbed], Tolerance(least)).rows):
        for difference in row.differences:
            key = (difference.kind, difference.name)
            # That a number agrees once does not mean that rounding never moves it.
            worst[key] = max(worst.get(key, 0.0), difference.relative)
            measured[(number, *key)] = worst[key]
    return Tolerance(least, half, measured)
