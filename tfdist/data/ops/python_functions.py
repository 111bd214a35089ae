"""Python functions that TensorFlow's threads call, and that do not hang the process at its end.

When the interpreter ends, a thread that is inside a Python function never returns, and deleting the iterator that waits
for it never returns either: a script that leaves an iterator half-read would hang at its end. So the calls are counted
and waited for before the interpreter ends. They stop by themselves once the pipeline's buffers are full.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

QUIET_SECONDS = 0.05
"""A pipeline without a call for so long has its buffers full."""

LONGEST_WAIT_SECONDS = 5.0


class CountedCalls:
    """A function that counts its running calls, which are waited for at the interpreter's end."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._calls = _Calls()
        # The finalizer of an object that is alive at exit runs then, while other threads still can.
        weakref.finalize(self, self._calls.settle)

    def __call__(self, *args: Any) -> Any:
        """Calls the function."""
        with self._calls:
            return self._function(*args)


class _Calls:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._last = float("-inf")

    def __enter__(self) -> None:
        with self._changed:
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running -= 1
            self._last = time.monotonic()
            self._changed.notify_all()

    def settle(self) -> None:
        """Waits until no call runs and none follows, within a bound."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        with self._changed:
            while (now := time.monotonic()) < deadline and (self._running or now < self._last + QUIET_SECONDS):
                self._changed.wait(QUIET_SECONDS)


def call_python(
    function: CountedCalls, args: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec]
) -> tuple[tf.Tensor, ...]:
    """Calls a Python function from a graph, as long as the function lives.

    TensorFlow would hold it until the process ends, with the files that it has open. Here the closure of the traced
    function holds it, and so the dataset does, which lives as long as its iterators.

    Args:
        function: From arrays to as many arrays as there are `specs`.
        args: What it is called with.
        specs: Shapes and dtypes of what it returns.
    """
    # In eager mode TensorFlow takes a single value out of its list.
    values = tf.nest.flatten(tf.numpy_function(_weakly(function), args, [spec.dtype for spec in specs]))
    return tuple(tf.ensure_shape(value, spec.shape) for value, spec in zip(values, specs, strict=True))


def _weakly(function: CountedCalls) -> Callable[..., Any]:
    """Returns a function that calls another without keeping it alive."""
    reference = weakref.ref(function)

    def call(*args: Any) -> Any:
        function = reference()
        if function is None:
            raise RuntimeError("The dataset of this batch is gone. Keep it as long as it is read.")
        return function(*args)

    return call
