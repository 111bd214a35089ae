"""Stop requests of the launcher: all workers stop after the same batch.

The launcher asks every worker how many batches it has begun, which makes each wait before its next batch, and then
tells all to stop after the last batch that any of them has begun. Meanwhile no worker begins a further batch, so that
none passes it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_log = logging.getLogger("tfdist")

EXTRA_SECONDS = 5.0
"""Seconds beyond the time for a stop within which the launcher must have said where to stop."""

Save = Callable[[], str]


def saved_words(what: str | None, why_not: str) -> str:
    """Returns what came of saving at a stop, in words: what was saved where; None for nothing, with the reason."""
    return f"nothing was saved ({why_not})" if what is None else f"saved {what}"


class WorkerStopped(SystemExit):
    """Ends the worker's script between two batches, as its own `sys.exit(code)` would."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code: int = code


@dataclass(frozen=True)
class _Stop:
    after: int
    code: int


class StopRequests:
    """This worker's part in a stop of all workers.

    Batches are counted from the process's start: those of training, and those of evaluation inside of a `fit`. All
    workers count the same sequence, and the batches of one execution at once.

    Args:
        grace: Seconds that a stop may take (`Assignment.grace`).
        clock: Seconds, never going back.
    """

    def __init__(self, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = grace + EXTRA_SECONDS
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = 0
        self._fits = 0
        self._held_until: float | None = None
        self._stop: _Stop | None = None
        self._saves: list[Save] = []
        self._stopped_with: int | None = None

    @property
    def stopped_with(self) -> int | None:
        """The exit code of the stop that this worker has made; None as long as there was none."""
        return self._stopped_with

    def at_stop(self, save: Save) -> None:
        """Has `save` called when the worker stops: in the main thread, between two batches, on all workers together.

        Args:
            save: Saves the training, and returns what came of it, by `saved_words`.
        """
        self._saves.append(save)

    def hold(self) -> int | None:
        """Begins no further batch from now on, until `stop` says where to stop or the time for that is over.

        Returns:
            Batches begun until now; None when no `fit` is under way.
        """
        with self._changed:
            self._held_until = self._clock() + self._timeout
            self._stop = None
            return self._begun if self._fits else None

    def stop(self, after: int, code: int) -> None:
        """Stops after batch `after` with exit code `code`; does nothing unless a `hold` is in force."""
        with self._changed:
            if self._held_until is not None:
                self._stop = _Stop(after, code)
                self._changed.notify_all()

    @contextlib.contextmanager
    def during_fit(self) -> Iterator[None]:
        """Around a `fit`: batches count and the worker stops only inside of one."""
        with self._changed:
            self._fits += 1
        try:
            yield
        finally:
            with self._changed:
                self._fits -= 1

    def begin_batches(self, batches: int) -> None:
        """Call it in the main thread where `batches` are about to run in one execution; waits where it must.

        Raises:
            WorkerStopped: The worker is to stop before them.
        """
        with self._changed:
            stop = self._due_stop() if self._fits else None
            if stop is None:
                self._begun += batches if self._fits else 0
                return
        self._save(stop)
        raise WorkerStopped(stop.code)

    def _due_stop(self) -> _Stop | None:
        """The stop that is due now; None when the next batches are to run."""
        while self._stop is None and self._held_until is not None:
            left = self._held_until - self._clock()
            if left <= 0:
                _log.warning(
                    "The launcher asked where to stop, and did not say so within %.0f s. Continuing.", self._timeout
                )
                self._held_until = None
            else:
                self._changed.wait(left)
        return self._stop if self._stop is not None and self._begun >= self._stop.after else None

    def _save(self, stop: _Stop) -> None:
        saved = [save() for save in self._saves]
        self._stopped_with = stop.code
        _log.info("stopped after batch %d, with exit code %d", self._begun, stop.code)
        print("; ".join(["stopped between two batches", *saved]), flush=True)
