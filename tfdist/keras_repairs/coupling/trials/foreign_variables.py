"""Refuses what would change variables that are not restored, in code that is tried out.

The user's objects are looked through for what they hold, and an object of a library may hold a variable all the same:
`tf.train.Checkpoint(step=step)`, say. A trial that comes upon such a variable ends before it is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE

Function = Callable[..., Any]


class ForeignVariable(Exception):
    """A variable would be changed that is not restored afterwards."""


def handles_of(variables: Iterable[tf.Variable]) -> frozenset[int]:
    """The ids of the handles of variables, for `TrialScope.handles`."""
    return frozenset(id(variable.handle) for variable in variables)


def assignment(original: Function) -> Function:
    """Repairs an operation that assigns to a variable, by its handle."""

    @functools.wraps(original)
    def repaired(*args: Any, **kwargs: Any) -> Any:
        _check(args[:1] or [kwargs.get("resource", kwargs.get("ref"))])
        return original(*args, **kwargs)

    return repaired


def call_flat(original: Function) -> Function:
    """Repairs `ConcreteFunction._call_flat`: what a function captures it may change."""

    @functools.wraps(original)
    def repaired(function: Any, tensor_inputs: Any, captured_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        _check(captured_inputs)
        return original(function, tensor_inputs, captured_inputs, *args, **kwargs)

    return repaired


def _check(inputs: Iterable[Any]) -> None:
    known = TRIAL_SCOPE.get().handles
    if known is None or not tf.executing_eagerly():
        return
    for each in inputs:
        if getattr(each, "dtype", None) == tf.resource and id(each) not in known:
            raise ForeignVariable("a variable that is held by an object which is not looked through")
