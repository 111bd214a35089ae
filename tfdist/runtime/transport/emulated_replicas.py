"""Replicas that are emulated in threads of this process, where a step is tried out on a few made-up samples.

One thread runs at a time, and the turn passes where the replicas exchange something, as in the replicas of TensorFlow's
MirroredStrategy while they are traced: code of the user's that keeps things on its objects sees no race. A replica
waits for its turn as long as code of the user's runs on another, which the worker's watchdog bounds as any other call.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import tensorflow as tf

Result = TypeVar("Result")


class Diverged(Exception):
    """The replicas do not exchange the same things, or one of them has failed."""


@dataclass(frozen=True)
class EmulatedReplica:
    """One of several emulated replicas.

    Attributes:
        index: Which one it is.
        count: How many there are.
    """

    index: int
    count: int
    _turns: _Turns

    def gathered(self, tensor: Any) -> list[Any]:
        """The tensors that all replicas give here, in their order.

        Raises:
            Diverged: Another replica gives none.
        """
        return self._turns.exchange(self.index, tensor)

    def summed(self, tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
        """The sum of each tensor over the replicas: the slices of all of them for slices, as real replicas have."""
        return [_added(self.gathered(tensor)) for tensor in tensors]


def _added(parts: list[Any]) -> tf.Tensor | tf.IndexedSlices:
    if not all(isinstance(part, tf.IndexedSlices) for part in parts):
        return tf.add_n(parts)
    values, indices = (tf.concat([getattr(part, name) for part in parts], 0) for name in ("values", "indices"))
    return tf.IndexedSlices(values, indices, parts[0].dense_shape)


class OwnState(Protocol):
    """State that every replica has for itself, and the process once."""

    def read(self) -> Any:
        """Returns what it is now."""

    def write(self, state: Any) -> None:
        """Makes it what `read` has returned before."""


class _Turns:
    """Whose turn it is, and what was given at the exchanges so far."""

    def __init__(self, count: int, own: OwnState | None) -> None:
        self._count = count
        self._own = own
        self._at_first = None if own is None else own.read()
        self._condition = threading.Condition()
        self._turn = 0
        self._rounds: list[list[Any]] = []
        self._done = [0] * count
        self._ended: set[int] = set()
        self._has_failed = False

    def begin(self, index: int) -> None:
        with self._condition:
            self._wait_for(index)
            self._take_up(self._at_first)

    def exchange(self, index: int, value: Any) -> list[Any]:
        with self._condition:
            place = self._done[index]
            if self._ended:
                raise Diverged("the replicas do not exchange the same things")
            if place == len(self._rounds):
                self._rounds.append([])
            self._rounds[place].append(value)
            self._done[index] += 1
            state = None if self._own is None else self._own.read()
            self._pass_on(index)
            self._wait_for(index)
            self._take_up(state)
            return self._rounds[place]

    def end(self, index: int, *, has_failed: bool) -> None:
        """A replica has come to its end, to which no other may wait for what it does not give."""
        with self._condition:
            self._ended.add(index)
            self._has_failed |= has_failed or any(done > self._done[index] for done in self._done)
            self._pass_on(index)

    def _take_up(self, state: Any) -> None:
        if self._own is not None:
            self._own.write(state)

    def _pass_on(self, index: int) -> None:
        self._turn = (index + 1) % self._count
        self._condition.notify_all()

    def _wait_for(self, index: int) -> None:
        self._condition.wait_for(lambda: self._turn == index or self._has_failed)
        if self._has_failed:
            raise Diverged("another replica has come to an end")


_replica: contextvars.ContextVar[EmulatedReplica | None] = contextvars.ContextVar(
    "tfdist_emulated_replica", default=None
)


def emulated_replica() -> EmulatedReplica | None:
    """The emulated replica whose code runs; None outside of one."""
    return _replica.get()


@contextlib.contextmanager
def not_emulated() -> Iterator[None]:
    """Around code that an emulated replica runs for itself, and that exchanges nothing."""
    token = _replica.set(None)
    try:
        yield
    finally:
        _replica.reset(token)


def run_emulated(functions: Sequence[Callable[[], Result]], own: OwnState | None = None) -> list[Result]:
    """Calls one function for each replica, in a thread of its own with a copy of the caller's context.

    Args:
        functions: One a replica.
        own: What each has for itself, and begins with as it is now. It is left as the last of them has it.

    Returns:
        What they have returned.

    Raises:
        Diverged: They do not exchange the same things.
        Exception: What the first of them to fail has raised.
    """
    turns = _Turns(len(functions), own)
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(index: int) -> None:
        _replica.set(EmulatedReplica(index, len(functions), turns))
        try:
            turns.begin(index)
            results[index] = functions[index]()
        except BaseException as error:  # It belongs to the caller.
            errors.append(error)
            turns.end(index, has_failed=True)
        else:
            turns.end(index, has_failed=False)

    # Daemons: where Ctrl-C ends the wait for code of the user's that does not return, the process ends all the same.
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=[run, index], name=f"tfdist-emulated-{index}", daemon=True
        )
        for index in range(len(functions))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, Diverged)), errors[0])
    return [results[index] for index in range(len(functions))]
