"""Watch over a job's rows: tells of each as soon as it is done, while the job goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType

_TICK_SECONDS = 0.5


class RowWatch:
    """While entered, looks now and then which rows are done, in a thread; at the end once more.

    Each row is told of once, one after the other. What `look` or `tell` raises in the thread is raised at the end.

    Args:
        look: Gives the names of the rows that are done.
        tell: Called with each of them.
        tick: Seconds from look to look.
    """

    def __init__(
        self,
        look: Callable[[], Iterable[str]],
        tell: Callable[[str], None],
        tick: float = _TICK_SECONDS,
    ) -> None:
        self._look, self._tell, self._tick = look, tell, tick
        self._known: set[str] = set()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="tfdist-rows", daemon=True)

    def __enter__(self) -> RowWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error
        self._tell_new()

    def _watch(self) -> None:
        try:
            while not self._ended.wait(self._tick):
                self._tell_new()
        except Exception as error:
            self._error = error

    def _tell_new(self) -> None:
        for name in self._look():
            if name not in self._known:
                self._known.add(name)
                self._tell(name)
