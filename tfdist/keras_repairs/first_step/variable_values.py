"""The variables that a step uses and may change: read, written, and compared after two ways of making the step."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.distribute.distribute_utils import value_container

from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.workers import worker_count

_REPLICA = re.compile(r"(/replica_\d+)?(:\d+)?$")
_SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""The distance of neighbouring numbers, relative to them."""

_LEAST = 1e-30
"""The largest change that counts as none."""

_ULPS = 8
"""By how many of those a variable may be rounded in one step."""

_HALF = ("float16", "bfloat16")

_NOISE = 1e-7
"""A gradient that is zero but for rounding, as that of a key's bias in attention, differs by all of itself. So little
of what the step changes at most in any variable of the kind is not looked at."""

_MOVE = 32.0
"""So many of those are what sums of some hundred products are rounded by, and some times that."""

Values = Mapping[str, NDArray]


@dataclass(frozen=True)
class _Group:
    """The copies that the replicas of this worker have of one variable.

    Attributes:
        copies: One a replica; one where there is no more.
        adds_up: Whether the copies of all workers are summands, as those of most metrics are.
        is_of_all: Whether all of them are to be the same.
        is_put_together: Whether one device's step begins with their sum. Of metrics it does on one worker alone: of
            several, the first one counts for all.
    """

    copies: Sequence[tf.Variable]
    adds_up: bool
    is_of_all: bool
    is_put_together: bool


class VariableValues:
    """The values of variables, by name.

    Args:
        variables: Of TensorFlow's, distributed or not, in an order that all workers share.
        summands: Those of them whose copies are summands of what they stand for, beside those that say so themselves.
        copies: Single copies of variables, in any order, of which some are among these.
        strategy: Whose replicas have them.
    """

    def __init__(
        self,
        variables: Iterable[Any],
        summands: Iterable[Any],
        copies: Iterable[tf.Variable],
        strategy: tf.distribute.Strategy,
    ) -> None:
        self._strategy = strategy
        are_summands = {id(variable) for variable in summands}
        self._groups: list[_Group] = []
        known: set[int] = set()
        others = [value_container(copy) for copy in sorted(copies, key=lambda copy: copy.name)]
        for variable in [*variables, *others]:
            local = strategy.experimental_local_results(variable)
            if id(local[0].handle) not in known:
                known.update(id(copy.handle) for copy in local)
                is_of_optimizer = id(variable) in are_summands
                adds_up = is_of_optimizer or _is_summed(variable)
                together = is_of_optimizer or (adds_up and worker_count(strategy) == 1)
                is_of_all = not adds_up and _is_of_all(variable)
                self._groups.append(_Group(local, adds_up, is_of_all, together))
        self._names = _distinct([_REPLICA.sub("", group.copies[0].name) for group in self._groups])

    def names_of(self, variables: Iterable[Any]) -> set[str]:
        """Returns what these of the variables are called here."""
        handles = {id(self._strategy.experimental_local_results(variable)[0].handle) for variable in variables}
        named = zip(self._names, self._groups, strict=True)
        return {name for name, group in named if id(group.copies[0].handle) in handles}

    def read(self) -> list[NDArray]:
        """The value of every copy."""
        return [copy.numpy() for group in self._groups for copy in group.copies]

    def write(self, values: Sequence[NDArray]) -> None:
        """Makes them what `read` has returned."""
        rest = iter(values)
        for group in self._groups:
            for copy in group.copies:
                copy.assign(next(rest), read_value=False)

    def put_together(self, values: Values) -> None:
        """Gives the first replica of each worker all that optimizers and metrics have added up, as on one device."""
        for name, group in zip(self._names, self._groups, strict=True):
            if group.is_put_together:
                for place, copy in enumerate(group.copies):
                    copy.assign(np.zeros_like(values[name]) if place else values[name], read_value=False)

    def of_all(self, *, is_together: bool = False) -> dict[str, NDArray]:
        """Returns what each variable is over all replicas; all workers call this together.

        Args:
            is_together: Whether each worker has all that was added up; see `put_together`.
        """
        own = {name: self._value(group) for name, group in zip(self._names, self._groups, strict=True)}
        groups = zip(self._names, self._groups, strict=True)
        sums = [name for name, group in groups if group.adds_up and not (is_together and group.is_put_together)]
        if worker_count(self._strategy) > 1:
            own.update({name: np.asarray(all_reduce(own[name], "sum", self._strategy)) for name in sums})
        return own

    def perturb(self, seed: int, least: float) -> None:
        """Moves every floating number a little, alike on all replicas; see `moved_a_little`."""
        for number, group in enumerate(self._groups):
            dtype = group.copies[0].dtype.name
            if dtype not in _SPACING or group.adds_up:
                continue
            for copy in group.copies:
                copy.assign(moved_a_little(copy.numpy(), np.random.RandomState([seed, number]), least))

    def of_other_replicas(self) -> list[dict[str, NDArray]]:
        """Returns what the copies of variables that all replicas are to share are on this worker's replicas after the
        first."""
        named = zip(self._names, self._groups, strict=True)
        shared = [(name, group.copies[1:]) for name, group in named if group.is_of_all]
        most = max((len(copies) for _, copies in shared), default=0)
        return [{name: copies[i].numpy() for name, copies in shared if i < len(copies)} for i in range(most)]

    @staticmethod
    def _value(group: _Group) -> NDArray:
        values = [copy.numpy() for copy in (group.copies if group.adds_up else group.copies[:1])]
        return np.sum(values, axis=0, dtype=values[0].dtype) if len(values) > 1 else values[0]


def least_move(dtypes: Iterable[str]) -> float:
    """By how much numbers are moved at least, relative to them, for what is computed in these dtypes to move."""
    return max((_SPACING[dtype] / 2 for dtype in dtypes if dtype in _HALF), default=0.0)


def moved_a_little(values: NDArray, generator: np.random.RandomState, least: float) -> NDArray:
    """Floating numbers, each multiplied with a number that is a little more or less than 1."""
    spacing = _SPACING[values.dtype.name]
    move = max(spacing if values.dtype.name in _HALF else _MOVE * spacing, least)
    moved = _wide(values) * np.where(generator.rand(*values.shape) < 0.5, 1 + move, 1 - move)
    return moved.astype(values.dtype)


def differences(before: Values, expected: Values, found: Values) -> dict[str, float]:
    """By how much each variable differs after two ways of making a step, relative to what the step changes in it.

    0 stands for what rounding alone may do to the numbers as they are stored; infinity for whole numbers, truths and
    texts that are not the same, and for numbers that are none.

    Args:
        before: The values before the step.
        expected: After it, made in one way.
        found: After it, made in another.
    """
    changes = {name: _change(before[name], value) for name, value in expected.items() if name in found}
    of_kind: dict[str, float] = {}
    for name, change in changes.items():
        of_kind[_kind_of(name)] = max(change, of_kind.get(_kind_of(name), 0.0))
    floors = {name: _NOISE * of_kind[_kind_of(name)] for name in changes}
    return {name: _difference(before[name], expected[name], found[name], floors[name]) for name in changes}


def _kind_of(name: str) -> str:
    """Returns what variables with one meaning have in common: momenta are named after their weights, and end alike."""
    return re.split("[_/]", name)[-1]


def spreads(before: Values, expected: Values, found: Values) -> dict[str, float]:
    """As `differences`, of the mean over the elements of a variable (of squares) rather than of the largest."""
    return {name: _spread(before[name], expected[name], found[name]) for name in expected if name in found}


def _spread(before: NDArray, expected: NDArray, found: NDArray) -> float:
    if expected.shape != found.shape or not _is_float(expected):
        return float("inf")
    with _of_any_numbers():
        gap, change = _wide(found) - _wide(expected), _wide(expected) - _wide(before)
    finite = np.isfinite(gap) & np.isfinite(change)
    if not finite.all():
        gap, change = gap[finite], change[finite]
    return _norm(gap) / max(_norm(change), _LEAST)


def _norm(values: NDArray) -> float:
    return math.sqrt(np.square(values, dtype=np.float64).sum())


def _difference(before: NDArray, expected: NDArray, found: NDArray, floor: float = 0.0) -> float:
    if expected.shape != found.shape:
        return float("inf")
    if not _is_float(expected):
        return 0.0 if np.array_equal(expected, found) else float("inf")
    spacing = _SPACING[expected.dtype.name]
    wide, found = _wide(expected), _wide(found)
    finite = np.isfinite(wide)
    if not np.array_equal(finite, np.isfinite(found)):
        return float("inf")
    if not finite.all():
        wide, found = wide[finite], found[finite]
    with _of_any_numbers():
        gap = np.abs(found - wide)
    if not gap.max(initial=0) > floor:
        return 0.0
    largest = float((gap - (_ULPS * spacing * np.abs(wide) + floor)).max())
    return largest / max(_change(before, expected), _LEAST) if largest > 0 else 0.0


def _change(before: NDArray, after: NDArray) -> float:
    """The most by which a number changes, of those that are numbers before and after."""
    if before.shape != after.shape or not _is_float(after):
        return 0.0
    with _of_any_numbers():
        change = np.abs(_wide(after) - _wide(before))
    largest = float(change.max(initial=0))
    return largest if math.isfinite(largest) else float(change[np.isfinite(change)].max(initial=0))


def _of_any_numbers() -> contextlib.AbstractContextManager[None]:
    """Without warnings of infinite numbers, of which the differences are none, and of those that become infinite."""
    return np.errstate(invalid="ignore", over="ignore")


def _wide(values: NDArray) -> NDArray:
    """The values, those of 16 bits with 32: for the difference of two numbers their own precision is enough."""
    return values.astype(np.float32) if values.dtype.name in _HALF else values


def _is_float(values: NDArray) -> bool:
    return values.dtype.name in _SPACING


def _is_of_all(variable: Any) -> bool:
    return (
        isinstance(variable, tf.distribute.DistributedValues)
        and getattr(variable, "synchronization", tf.VariableSynchronization.ON_READ)
        != tf.VariableSynchronization.ON_READ
    )


def _is_summed(variable: Any) -> bool:
    return (
        isinstance(variable, tf.distribute.DistributedValues)
        and getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
        and variable.aggregation == tf.VariableAggregation.SUM
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with numbers where several variables have one, as metrics may."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
