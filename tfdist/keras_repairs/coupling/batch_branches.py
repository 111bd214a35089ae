"""Finds branches and loops that the batch decides, such as `tf.cond(tf.reduce_any(x > 6), ...)`, in what is traced.

One device takes one branch for all samples, and replicas might each take another. No trial shows that of a threshold
which made-up numbers do not reach; the graph tells that the predicate is computed from the values of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph, WhileCondFuncGraph

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import TraceAgain, alone, current_step, tried_out
from tfdist.keras_repairs.base.size_origins import depends_on_values
from tfdist.keras_repairs.coupling.call_scope import CALL_SCOPE, collecting
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples
from tfdist.runtime import random_state
from tfdist.runtime.strategy_settings import settings_of

Call = Callable[[], Any]

WHICH_BRANCH = "which branch it takes, or how often it repeats a loop,"
"""What depends on the batch in the calls that are found."""

_OF_LIBRARIES = ("tensorflow.", "keras.src.", "tfdist.")
_OF_AUTOGRAPH = "tensorflow.python.autograph."


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


def check_branch(chooses: Any, branches: Sequence[Any]) -> None:
    """Raises in a trace that asks for it, where a branch of the user's is taken by the values of the batch.

    Turns of a loop are for one sample or time step each, and what is the same on all replicas decides for all.

    Args:
        chooses: The predicate of `tf.cond`, or the index of `tf.switch_case`.
        branches: The functions that it chooses from.

    Raises:
        DecidedByBatch: It is.
    """
    if _looks_for(branches) and hasattr(chooses, "graph") and depends_on_values(chooses, _is_same_on_all()):
        raise DecidedByBatch


class WatchedLoop:
    """A loop whose test and body are traced, to be checked as `check_branch` does.

    Args:
        test: The first argument of `tf.while_loop`.
        body: The second.

    Attributes:
        test: What is to be traced in its place.
        body: Likewise.
    """

    def __init__(self, test: Any, body: Any) -> None:
        self._tested: _Traced | None = None
        self._done: _Traced | None = None
        self.test, self.body = test, body
        if _looks_for([test]):
            self.test, self.body = self._watched(test, "_tested"), self._watched(body, "_done")

    def _watched(self, function: Callable[..., Any], place: str) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            made = function(*given)
            setattr(self, place, (_leaves(given), _leaves(made)))
            return made

        return run

    def check(self, begin: Any) -> None:
        """Raises where how often it is repeated depends on the values of the batch.

        Args:
            begin: The variables of the loop before its first turn.

        Raises:
            DecidedByBatch: It does.
        """
        if self._tested is None or self._done is None:
            return
        is_same, begins = _is_same_on_all(), enumerate(_leaves(begin))
        decided = {place for place, leaf in begins if tf.is_tensor(leaf) and depends_on_values(leaf, is_same)}
        sources = list(_sources(*self._done, is_same))
        while more := {k for k, source in enumerate(sources) if None in source or source & decided} - decided:
            decided |= more
        if any(None in source or source & decided for source in _sources(*self._tested, is_same)):
            raise DecidedByBatch


_Traced = tuple[list[Any], list[Any]]
_IsApart = Callable[[tf.Operation], bool]


def _leaves(values: Any) -> list[Any]:
    return list(tf.nest.flatten(values, expand_composites=True))


def _sources(given: list[Any], made: list[Any], is_same: _IsApart) -> Iterator[set[int | None]]:
    """For each tensor that is made, the places of those given that it follows from, and None for the batch's values."""
    places = {id(leaf): place for place, leaf in enumerate(given) if tf.is_tensor(leaf)}
    for leaf in made:
        found: set[int | None] = set()

        def is_apart(operation: tf.Operation, found: set[int | None] = found) -> bool:
            known = {places[id(output)] for output in operation.outputs if id(output) in places}
            found.update(known)
            return bool(known) or is_same(operation)

        if tf.is_tensor(leaf) and depends_on_values(leaf, is_apart):
            found.add(None)
        yield found


def takes_branches(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns whether the user's code takes a branch by the values of the batch, or may do so in Python, as a trace of
    it shows which computes nothing: for steps that run eagerly.

    Args:
        call: The code.
        args: What it is called with.
        kwargs: Likewise, by name.
    """
    are_decided: list[bool] = []

    def traced(given: Any) -> Any:
        try:
            return finding_branches(lambda: call(*given[0], **given[1]))
        except (DecidedByBatch, *_OF_SYMBOLS):
            are_decided.append(True)
            raise

    are_rows = [tf.is_tensor(leaf) and is_of_samples(leaf) for leaf in tf.nest.flatten((args, kwargs))]
    with alone(), tried_out(), random_state.kept(), collecting():
        traced_outputs(traced, (args, kwargs), are_rows)
    return bool(are_decided)


_OF_SYMBOLS = (tf.errors.OperatorNotAllowedInGraphError, NotImplementedError, AttributeError, TypeError)
"""What `if tensor:`, `np.asarray(tensor)`, `tensor.numpy()` and `float(tensor)` raise where the tensor is a symbol."""


def _looks_for(functions: Sequence[Any]) -> bool:
    """Returns whether branches are looked for in the code that is traced, and these functions are the user's."""
    finder, step = CALL_SCOPE.get().finds_branches_for, current_step()
    if finder is None or finder is not (_AS_ONE if step is None else step.noted) or tf.executing_eagerly():
        return False
    return any(map(_is_users, functions)) and not _is_in_loop(tf.compat.v1.get_default_graph())


def _is_same_on_all() -> _IsApart:
    """Tells operations whose results are the same on all replicas."""
    step = current_step()
    shared = {id(tensor) for tensor in (() if step is None else step.noted.shared)}
    return lambda operation: (
        operation.type.startswith("Collective") or any(id(output) in shared for output in operation.outputs)
    )


def _is_users(branch: Any) -> bool:
    while isinstance(branch, functools.partial):
        branch = branch.func
    module = getattr(branch, "__module__", None) or ""
    return callable(branch) and (module.startswith(_OF_AUTOGRAPH) or not module.startswith(_OF_LIBRARIES))


def _is_in_loop(graph: Any) -> bool:
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph | WhileCondFuncGraph):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
