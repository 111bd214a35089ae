"""Finds branches and loops that the batch decides, such as `tf.cond(tf.reduce_any(x > 6), ...)`, in what is traced.

One device takes one branch for all samples, and replicas might each take another. No trial shows that of a threshold
which made-up numbers do not reach; the graph tells that the predicate is computed from the values of the batch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import TraceAgain, alone, current_step, tried_out
from tfdist.keras_repairs.base.size_origins import depends_on_batch, depends_on_values
from tfdist.keras_repairs.coupling import eager_numbers
from tfdist.keras_repairs.coupling.call_scope import CALL_SCOPE, collecting
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples
from tfdist.runtime import random_state
from tfdist.runtime.strategy_settings import settings_of

Call = Callable[[], Any]

WHICH_BRANCH = "which side of a branch or of a limit it takes, or how often it repeats a loop,"
"""What depends on the batch in the calls that are found."""


class DecidedByBatch(Exception):
    """Raised out of a call that is traced, where it takes a branch by the values of the batch."""


def without_branches(call: Call, note: Call) -> Any:
    """Calls the user's code for the samples of one replica, which must not take a branch by their values, unless that
    was asked for with `gather: off`.

    Args:
        call: The code, in the step of a replica.
        note: Notes that it does, for the next trace.

    Raises:
        TraceAgain: It does.
    """
    if not settings_of(tf.distribute.get_strategy()).gather:
        return call()
    try:
        return finding_branches(call)
    except DecidedByBatch:
        note()
        raise TraceAgain from None


def finding_branches(call: Call) -> Any:
    """Calls the user's code.

    Raises:
        DecidedByBatch: In a trace, it takes a branch by the values of the batch.
    """
    step = current_step()
    with changing(CALL_SCOPE, finds_branches_for=_AS_ONE if step is None else step.noted):
        return call()


_AS_ONE = object()
"""In the place of a step's notes where there is no step."""


def check_branch(chooses: Any) -> None:
    """Raises in a trace that asks for it, where a branch of the user's is taken by the values or the size of the batch.

    What is the same on all replicas decides for all; and where a branch asks whether there are any samples, there are
    some on all of them.

    Args:
        chooses: The predicate of `tf.cond`, or the index of `tf.switch_case`.

    Raises:
        DecidedByBatch: It is.
    """
    loops = CALL_SCOPE.get().loops
    if not hasattr(chooses, "graph") or not _looks_for() or _asks_for_samples(chooses):
        return
    if loops is not None:
        loops.choices.append(loops.sources(chooses))
    elif _is_of_batch(chooses):
        raise DecidedByBatch


def looked_at_apart() -> contextlib.AbstractContextManager[None]:
    """Around a call of the user's that is looked at by itself, or of which was said how replicas share it out."""
    return changing(CALL_SCOPE, finds_branches_for=None)


def _is_of_batch(tensor: Any) -> bool:
    return depends_on_batch(tensor, _is_same_on_all()) or depends_on_values(tensor, _is_same_on_all())


def check_limit(value: Any) -> None:
    """Raises where a value with which a limit of the user's is compared follows from the values of the batch.

    Args:
        value: It has no dimension that is that of the samples.

    Raises:
        DecidedByBatch: It does.
    """
    loops = CALL_SCOPE.get().loops
    # Graphs are deep: what Keras creates is not followed back.
    if not _is_called_by_user(_OPERATING) or not depends_on_values(value, _is_same_on_all()):
        return
    if loops is None:
        raise DecidedByBatch
    loops.choices.append(loops.sources(value))


def _asks_for_samples(predicate: Any) -> bool:
    """Returns whether a predicate compares a number with zero that is a size of the batch, not made by its values."""
    comparing, numbers = predicate.op, [tf.get_static_value(given) for given in predicate.op.inputs]
    if comparing.type not in ("Greater", "Less", "Equal", "NotEqual") or not any(one == 0 for one in numbers):
        return False
    return not any(depends_on_values(given, lambda _: False) for given in comparing.inputs)


_Source = tuple[int, int] | None
"""A variable of a loop, by the loop and its place; None for the values of the batch."""


class Loops:
    """The loops of the user's, one inside of the other, that are traced: what decides how often they are repeated.

    Attributes:
        flows: From what each variable of a loop follows, before its first turn and after each.
        choices: From what follows each predicate in them.
    """

    def __init__(self) -> None:
        self.flows: list[tuple[_Source, set[_Source]]] = []
        self.choices: list[set[_Source]] = []
        self._places: dict[int, _Source] = {}
        self._is_same = _is_same_on_all()

    def enter(self, loop: int, given: Sequence[Any]) -> None:
        """Notes the variables of a loop, as its test or body is given them."""
        self._places |= {id(leaf): (loop, place) for place, leaf in enumerate(given) if tf.is_tensor(leaf)}

    def sources(self, tensor: Any) -> set[_Source]:
        """Returns from what a tensor follows."""
        found: set[_Source] = set()

        def is_apart(operation: tf.Operation) -> bool:
            known = {self._places[id(output)] for output in operation.outputs if id(output) in self._places}
            found.update(known)
            return bool(known) or self._is_same(operation)

        if tf.is_tensor(tensor) and depends_on_values(tensor, is_apart):
            found.add(None)
        return found

    def check(self) -> None:
        """Raises where the values of the batch decide.

        Raises:
            DecidedByBatch: They do.
        """
        decided: set[_Source] = {None}
        while more := {variable for variable, sources in self.flows if sources & decided} - decided:
            decided |= more
        if any(sources & decided for sources in self.choices):
            raise DecidedByBatch


_OF_LIBRARY = object()
"""In the place of those of the user's, inside of a loop of TensorFlow's or Keras's own, over rows or time steps."""


def traced_loop(run: Callable[..., Any], test: Any, body: Any, begin: Any, most: Any) -> Any:
    """Traces a loop, and raises where how often it is repeated, or a branch in it, depends on the values of the batch.

    Args:
        run: `tf.while_loop`, called with a test and a body.
        test: The first argument of `tf.while_loop`.
        body: The second.
        begin: The variables of the loop before its first turn.
        most: The most turns, or None.

    Raises:
        DecidedByBatch: It does.
    """
    around = CALL_SCOPE.get().loops
    if around is _OF_LIBRARY or CALL_SCOPE.get().finds_branches_for is None or tf.executing_eagerly():
        return run(test, body)
    if not _looks_for():
        with changing(CALL_SCOPE, loops=_OF_LIBRARY):
            return run(test, body)
    loops = Loops() if around is None else around
    number = len(loops.flows)
    loops.choices.append(loops.sources(most))
    loops.flows += [((number, place), loops.sources(leaf)) for place, leaf in enumerate(_leaves(begin))]

    def tested(*given: Any) -> Any:
        loops.enter(number, _leaves(given))
        made = test(*given)
        loops.choices.append(loops.sources(made))
        return made

    def done(*given: Any) -> Any:
        loops.enter(number, _leaves(given))
        made = body(*given)
        loops.flows.extend(((number, place), loops.sources(leaf)) for place, leaf in enumerate(_leaves(made)))
        return made

    with changing(CALL_SCOPE, loops=loops):
        result = run(tested, done)
    if around is None:
        loops.check()
    return result


def _leaves(values: Any) -> list[Any]:
    return list(tf.nest.flatten(values, expand_composites=True))


def takes_branches(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, is_step: bool = False
) -> bool:
    """Returns whether the user's code takes a branch by the values of the batch, or may do so in Python, as a trace of
    it shows which computes nothing: for steps that run eagerly; False in others, whose own trace will show it.

    The layers, models, losses and metrics that it calls are looked at by themselves.

    Args:
        call: The code.
        args: What it is called with.
        kwargs: Likewise, by name.
        is_step: Whether it is a step, in which what a symbol cannot do otherwise decides nothing.
    """
    if not CALL_SCOPE.get().runs_eagerly:
        return False
    in_python = (tf.errors.OperatorNotAllowedInGraphError,) if is_step else _OF_SYMBOLS
    are_decided: list[bool] = []

    def check_number(symbol: Any) -> None:
        scope = CALL_SCOPE.get()
        if scope.finds_branches_for is not None and (scope.loops is not None or _is_of_batch(symbol)):
            if _is_called_by_user(_CONVERTING):
                raise DecidedByBatch
            # What libraries try out first, and do without, as with a symbol.
            raise tf.errors.OperatorNotAllowedInGraphError(f"{symbol.name} has no number while it is traced.")

    def traced(given: Any) -> Any:
        try:
            with eager_numbers.numbers_given(check_number):
                return finding_branches(lambda: call(*given[0], **given[1]))
        except (DecidedByBatch, *in_python):
            are_decided.append(True)
            raise

    # Data of a step is that of a batch.
    may_be_rows = (lambda leaf: bool(leaf.shape.rank)) if is_step else is_of_samples
    are_rows = [tf.is_tensor(leaf) and may_be_rows(leaf) for leaf in tf.nest.flatten((args, kwargs))]
    # The first of the replicas asks, for all: it must not draw more often than the others.
    draws = tensorflow_seeds.drawing_from(None)
    with alone(), tried_out(), random_state.kept(), draws, collecting():
        traced_outputs(traced, (args, kwargs), are_rows)
    return bool(are_decided)


_OF_SYMBOLS = (tf.errors.OperatorNotAllowedInGraphError, NotImplementedError, AttributeError, TypeError)
"""What `for row in tensor:` and `if tensor.shape[0] > 4:`, among others, raise where the tensor is a symbol."""


def pfor(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs TensorFlow's `pfor`, on which `tf.vectorized_map` stands: each row decides for itself there."""

    def repaired(*args: Any, **kwargs: Any) -> Any:
        with changing(CALL_SCOPE, loops=_OF_LIBRARY):
            return original(*args, **kwargs)

    return repaired


def _looks_for() -> bool:
    """Returns whether branches are looked for in the code that is traced, and it is the user's."""
    return is_looking() and _is_called_by_user(_PASSING_ON)


def is_looking() -> bool:
    """Returns whether branches and limits are looked for in the code that is traced, if it is the user's."""
    scope, step = CALL_SCOPE.get(), current_step()
    finder = scope.finds_branches_for
    if finder is None or finder is not (_AS_ONE if step is None else step.noted) or tf.executing_eagerly():
        return False
    return scope.loops is not _OF_LIBRARY


_KERAS, _TENSORFLOW = (os.path.dirname(str(package.__file__)) for package in (keras, tf))
_TFDIST = str(Path(__file__).parents[2])
_OF_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (_KERAS, _TENSORFLOW, _TFDIST))
_PASSING_ON = (
    *(f"{_TENSORFLOW}/python/{folder}/" for folder in ("autograph", "eager", "util", "framework")),
    *(f"{_TENSORFLOW}/python/ops/{name}.py" for name in ("cond", "cond_v2", "while_loop", "while_v2")),
    *(f"{_TENSORFLOW}/python/ops/{name}.py" for name in ("control_flow_case", "control_flow_switch_case")),
    *(f"{_KERAS}/src/{name}" for name in ("ops/core.py", "ops/operation.py", "backend/tensorflow/core.py", "utils/")),
    *(contextlib.__file__, functools.__file__, __file__, f"{_TFDIST}/keras_repairs/random_numbers/seeds.py"),
)
"""Code between who calls `tf.cond` or the like and what traces it."""

_CONVERTING = (*_PASSING_ON, eager_numbers.__file__, f"{os.path.dirname(np.__file__)}{os.sep}")
"""Code between who takes a number out of a tensor and what gives it."""

_OPERATING = (
    *_PASSING_ON,
    *(f"{_TENSORFLOW}/python/{folder}/" for folder in ("ops", "platform")),
    *(f"{_KERAS}/src/{folder}/" for folder in ("ops", "backend")),
)
"""Code between who calls an operation and what creates it."""


_BACKPROP = f"{_TENSORFLOW}/python/eager/backprop.py"
"""What differentiates has the sides of what it differentiates."""


def _is_called_by_user(passing_on: tuple[str, ...]) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path, is_repair = frame.f_code.co_filename, frame.f_code.co_name == "repaired"
        is_library = path.startswith(_OF_LIBRARIES)
        if path == _BACKPROP:
            return False
        if not path.startswith(passing_on) and not (is_repair and is_library):
            return not is_library
        frame = frame.f_back
    return False


def _is_same_on_all() -> Callable[[tf.Operation], bool]:
    """Tells operations whose results are the same on all replicas."""
    step = current_step()
    shared = {id(tensor) for tensor in (() if step is None else step.noted.shared)}
    return lambda operation: any(id(output) in shared for output in operation.outputs)
