"""Handles of collectives under way."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from tfdist.errors import WorkerFailedError


class Handle:
    """A collective under way, which functions return for `async_op=True`.

    Args:
        call: What it does, in words.
        future: Gets what it receives.
        finish: Makes the caller's value of that, in the caller's thread.
    """

    def __init__(
        self, call: str, future: concurrent.futures.Future[Any], finish: Callable[[Any], Any] | None = None
    ) -> None:
        self._call = call
        self._future = future
        self._finish = finish
        self._value: Any = None

    def done(self) -> bool:
        """Returns whether the collective is over, so that `wait` returns or raises at once."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the collective and returns what the function returns without `async_op`.

        It may be called again, and then returns the same value.

        Args:
            timeout: Seconds to wait at most. None for as long as it takes: where another worker does not come, the job
                ends after `--step-timeout` with an error that names it, whether somebody waits or not.

        Raises:
            WorkerFailedError: It takes longer than `timeout`. The collective is still under way.
        """
        try:
            received = self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            if self._future.done():
                raise  # the collective's own
            raise WorkerFailedError(
                f"{self._call} was not over after {timeout:g} s, as other workers have not come to it. Expected every "
                "worker of its group to call it. Wait for longer, or see in the logs of the others where they are."
            ) from None
        if self._finish is not None:
            self._value, self._finish = self._finish(received), None
        return self._value


def finished(call: str, value: Any) -> Handle:
    """The handle of a collective that is over."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result(value)
    return Handle(call, future, lambda value: value)
