"""Keras's global attributes, handed to the threads of the replicas.

Keras keeps its dtype policy, its scopes, its seed generator and its counts of names for each thread, and TensorFlow
traces every replica in a thread of its own, where none of them would be set: a layer that asks for the dtype policy
while it is called would get float32 under `mixed_bfloat16`, without a word.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from unittest import mock

import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import global_seeds, tensorflow_seeds
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, TraceAgain


def clear_session(original: Function) -> Function:
    """Repairs `keras.backend.clear_session`: under a strategy TensorFlow's default graph stays.

    Keras replaces that graph, in which TensorFlow keeps the strategy in force even when it executes eagerly. A model
    built afterwards would have no strategy: every worker would silently train its own, on all data. Eager execution
    puts nothing else into the graph.
    """

    def repaired(*args: Any, **kwargs: Any) -> Any:
        if not tf.distribute.has_strategy():
            return original(*args, **kwargs)
        with mock.patch.object(tf.compat.v1, "reset_default_graph"):
            return original(*args, **kwargs)

    return repaired


Function = Callable[..., Any]
Attributes = Mapping[str, Any]
Result = TypeVar("Result")


def call_for_each_replica(original: Function) -> Function:
    """Repairs `mirrored_run._call_for_each_replica`, which starts the threads of every `strategy.run`.

    Each replica begins with the attributes of the caller. What it sets is its own; what the first replica has set in
    the end is the caller's too, as it would be on one device.
    """

    def repaired(distribution: tf.distribute.Strategy, fn: Function, args: Any, kwargs: Any) -> Any:
        handover = _Handover(distribution)
        try:
            result = original(distribution, handover.inheriting(fn), args, kwargs)
        except (TraceAgain, UnsupportedError):
            handover.take_back_generator()
            raise
        handover.take_back()
        return result

    return repaired


def inherited(function: Function) -> Function:
    """`function`, to be called once in another thread, with what Keras keeps for this one; what it sets stays there."""
    given = [_copied(attributes) for attributes in _of_this_thread()]

    def run(*args: Any, **kwargs: Any) -> Any:
        for own, attributes in zip(_of_this_thread(), given, strict=True):
            own.update(attributes)
        return function(*args, **kwargs)

    return run


def in_other_thread(function: Callable[[], Result], name: str) -> Result:
    """Returns what `function` returns in a thread of its own, which has the state that Keras keeps for this one
    meanwhile.

    Raises:
        Exception: What it raises.
    """
    outcome: list[Result] = []
    errors: list[BaseException] = []
    given = [dict(attributes) for attributes in _of_this_thread()]

    def run() -> None:
        for own, attributes in zip(_of_this_thread(), given, strict=True):
            own.update(attributes)
        try:
            outcome.append(function())
        except BaseException as error:  # It belongs to the caller.
            errors.append(error)
        for own, attributes in zip(_of_this_thread(), given, strict=True):
            attributes.update(own)

    thread = threading.Thread(target=contextvars.copy_context().run, args=[run], name=name)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    for own, attributes in zip(_of_this_thread(), given, strict=True):
        own.update(attributes)
    return outcome[0]


def strategy_of_replica() -> tf.distribute.Strategy | None:
    """The strategy of which a replica runs this code; None outside of replicas.

    TensorFlow's own functions answer by the graph: in `tf.init_scope` they know of no replica.
    """
    return REPLICA_SCOPE.get().strategy


def outside_replica() -> contextlib.AbstractContextManager[None]:
    """The code inside is no replica's."""
    return changing(REPLICA_SCOPE, strategy=None)


class _Handover:
    """The attributes of the calling thread, on their way to the replicas and back; made in the calling thread."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._seeds = global_seeds.shared_seeds(strategy)
        self._tensorflow_seeds = tensorflow_seeds.shared_seeds(strategy)
        self._given = [_copied(attributes) for attributes in _of_this_thread()]
        self._common: dict[tuple[int, int], Any] = {}
        self._left: list[Attributes] | None = None
        self._generator: Any = None

    def inheriting(self, function: Function) -> Function:
        """`function`, to be called in a replica's thread, with the caller's attributes there."""

        def run(*args: Any, **kwargs: Any) -> Any:
            for own, given in zip(_of_this_thread(), self._given, strict=True):
                own.update(_copied(given))
            with (
                changing(REPLICA_SCOPE, strategy=self._strategy),
                global_seeds.drawing_from(self._seeds),
                tensorflow_seeds.drawing_from(self._tensorflow_seeds, self._common),
            ):
                try:
                    result = function(*args, **kwargs)
                except (TraceAgain, UnsupportedError):
                    self._generator = self._generator or global_seeds.taken()
                    raise
            if self._left is None:
                self._left = [dict(own) for own in _of_this_thread()]
            return result

        return run

    def take_back_generator(self) -> None:
        """Gives this thread the seed generator that a trace has taken which is made once more, or in another way.

        Its seed is the next of Python's numbers, of which one device takes one.
        """
        if self._generator is not None and global_seeds.taken() is None:
            global_seeds.put_back(self._generator)

    def take_back(self) -> None:
        """Gives this thread what the replica that came to its end first, which is the first one, has changed."""
        for own, given, left in zip(_of_this_thread(), self._given, self._left or self._given, strict=True):
            own.update({name: value for name, value in left.items() if not _is_unchanged(value, given.get(name))})


def _of_this_thread() -> tuple[dict[str, Any], ...]:
    """Returns what Keras keeps for the thread that asks, to read and to change."""
    return vars(global_state.GLOBAL_STATE_TRACKER), vars(global_state.GLOBAL_SETTINGS_TRACKER)


def _copied(attributes: Attributes) -> dict[str, Any]:
    """`attributes`, such that one thread's stacks and counts are not the other's: replicas take turns within a step."""
    return {name: copy.copy(value) if _is_container(value) else value for name, value in attributes.items()}


def _is_unchanged(value: Any, before: Any) -> bool:
    """Returns whether nothing was set; contents are not compared, which may be tensors."""
    if not _is_container(value) or type(value) is not type(before) or len(value) != len(before):
        return value is before
    if isinstance(value, dict):
        return all(name in before and value[name] is before[name] for name in value)
    return all(a is b for a, b in zip(value, before, strict=True))


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)
