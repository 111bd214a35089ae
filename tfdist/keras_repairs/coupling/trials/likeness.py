"""Decides whether two objects of the user's are alike, so that a trial of one shows what one of the other would show.

A search for hyperparameters, a cross-validation or a loop over losses compiles the same metrics again and again.
"""

from __future__ import annotations

import enum
import functools
import types
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.coupling.trials.kept_state import is_of_user, names_in, own_attributes

_PLAIN = bool | int | float | complex | str | bytes | enum.Enum | tf.DType | np.dtype | np.generic | type(None)

_FUNCTIONS = types.FunctionType | types.MethodType | types.BuiltinFunctionType | functools.partial | np.ufunc

_MANY = 1000
"""Items of a container or an array from which on it is not compared."""


class _NotComparable(ValueError):
    """A value of which it cannot be told whether another is like it."""


def likeness_of(metric: keras.metrics.Metric) -> Hashable | None:
    """Returns what a metric computes by, but for its name and the values of its variables.

    Its class with its code and its attributes, and what they hold: numbers, texts, containers and small arrays of them,
    functions with what they close over and the globals that they read, other metrics.

    Returns:
        A value that is equal for two metrics only where they are alike; None where that cannot be told.
    """
    try:
        return _Comparison(metric).of(metric)
    except _NotComparable:
        return None


class _Comparison:
    """One object that is being described; what it refers to in a circle is described once.

    Args:
        metric: The metric, whose variables are compared by shape and dtype alone.
    """

    def __init__(self, metric: keras.metrics.Metric) -> None:
        self._own = {id(variable) for variable in metric.variables}
        # With the values themselves, whose ids must not be those of others later.
        self._seen: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any) -> Hashable:
        """The likeness of a value."""
        if isinstance(value, _PLAIN):
            return type(value), value
        if id(value) in self._seen:
            return "again", self._seen[id(value)][0]
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, list | tuple | deque):
            return type(value), self._of_all(value)
        if isinstance(value, dict):
            return type(value), self._of_all(value.keys()), self._of_all(value.values())
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.size < _MANY:
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, keras.Variable) and id(value) in self._own:
            return tuple(value.shape), value.dtype
        if isinstance(value, type):
            return self._of_class(value)
        return self._of_function(value) if isinstance(value, _FUNCTIONS) else self._of_object(value)

    def _of_all(self, values: Any) -> Hashable:
        if len(values) > _MANY:
            raise _NotComparable
        return tuple(self.of(value) for value in values)

    def _of_object(self, value: Any) -> Hashable:
        if isinstance(value, keras.random.SeedGenerator):
            return keras.random.SeedGenerator
        if isinstance(value, keras.metrics.Metric):
            # The update that tfdist attaches is that of the class.
            own = {name: part for name, part in own_attributes(value).items() if name != "update_state"}
            return self.of(type(value)), value.dtype, self.of(own), self._of_all(value.variables)
        raise _NotComparable

    def _of_class(self, kind: type) -> Hashable:
        users = [cls for cls in kind.__mro__ if is_of_user(cls)]
        code = [part for cls in users for name, part in vars(cls).items() if isinstance(part, types.FunctionType)]
        values = [part for cls in users for part in vars(cls).values() if isinstance(part, _PLAIN)]
        return kind, self._of_all(code), self._of_all(values)

    def _of_function(self, function: Any) -> Hashable:
        if isinstance(function, types.MethodType):
            return self.of(function.__func__), self.of(function.__self__)
        if isinstance(function, functools.partial):
            return self.of(function.func), self.of(function.args), self.of(function.keywords)
        if not isinstance(function, types.FunctionType) or not is_of_user(function):
            return function
        names = sorted(names_in(function.__code__) & function.__globals__.keys())
        read = [function.__globals__[name] for name in names]
        held = [*_contents(function), *(value for value in read if not isinstance(value, types.ModuleType))]
        return function.__code__, self.of([function.__defaults__, function.__kwdefaults__]), self._of_all(held)


def _contents(function: types.FunctionType) -> Iterator[Any]:
    """Yields what a function closes over."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # A name of the function around it that has no value yet.
            yield None
