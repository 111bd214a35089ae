"""Comparison of two recordings of one training: pure, on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfdist.training.probes.probe_files import Moment, Recording
from tfdist.verify.relative_difference import relative, relative_arrays, root_mean_square
from tfdist.verify.replicas.tolerance import QUANTITY_KINDS, QuantityKind, Tolerance

_LEAST_SCALE = 1e-3
"""Of the typical weight: the least magnitude that a difference is related to; a bias may hardly have moved from 0."""


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
        reference: The chief's recording of the reference.
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


_Quantity = tuple[QuantityKind, str, float, float | None, float | None]


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
    """Yields what the replicas of one run differ in: within each worker, and between the chief and each other
    worker."""
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
