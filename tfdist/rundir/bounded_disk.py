"""Access to a disk with a bound on waiting, as a network file system may stop answering at any time.

Whoever touches it waits in the kernel, where no timeout reaches. So another thread touches it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tfdist.errors import RunDirError

SECONDS = 10.0
"""Seconds that a disk may take. One that is only slow answers in less."""

_T = TypeVar("_T")


class _Call(Generic[_T]):
    """One call, and what came of it."""

    def __init__(self, touch: Callable[[], _T], is_over: threading.Event) -> None:
        self._touch = touch
        self._is_over = is_over
        self._returned: list[_T] = []
        self._raised: BaseException | None = None

    def run(self) -> None:
        try:
            self._returned.append(self._touch())
        except BaseException as error:  # raised by the caller, who waits
            self._raised = error
        self._is_over.set()

    def result(self) -> _T:
        if self._raised is not None:
            raise self._raised
        return self._returned[0]


class BoundedDisk:
    """Calls one function after another, each in a thread, and waits for it for a bounded time.

    While a call that took too long goes on, further ones fail at once; once it has returned, the disk answers again.

    Args:
        place: What lies on the disk, for errors.
    """

    def __init__(self, place: str | os.PathLike[str], seconds: float = SECONDS) -> None:
        self._place = place
        self._seconds = seconds
        self._is_free = threading.Event()
        self._is_free.set()
        self._asking = threading.Lock()

    def call(self, touch: Callable[[], _T]) -> _T:
        """Returns what `touch` returns, and raises what it raises.

        Raises:
            RunDirError: The disk does not answer in time. What was begun may still be done later.
        """
        with self._asking:
            if not self._is_free.is_set():
                raise self._error()
            self._is_free.clear()
            call = _Call(touch, self._is_free)
            try:
                # A process that ends does not wait for it.
                threading.Thread(target=call.run, name="tfdist-disk", daemon=True).start()
            except RuntimeError:
                call.run()  # the system has no more threads
            if not self._is_free.wait(self._seconds):
                raise self._error()
            return call.result()

    def _error(self) -> RunDirError:
        return RunDirError(
            f"The disk of {os.fspath(self._place)} does not answer: nothing came back in {self._seconds:g} s. Expected "
            "one that does. Look at its mount (a network file system may have lost its server), or choose another "
            "--run-dir."
        )
