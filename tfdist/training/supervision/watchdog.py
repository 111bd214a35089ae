"""Watchdog that ends a worker when it waits in TensorFlow for longer than a step may take.

TensorFlow offers a timeout for each collective, and starts a thread for each that sleeps until then: at a hundred steps
a second and ten minutes, those are sixty thousand threads. So one thread looks now and then where the others are.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tfdist.errors import WorkerFailedError
from tfdist.runtime.thread_frames import frames_of_other_threads
from tfdist.runtime.transport import shared_memory

_LOOKS = 20
"""The number of times that the watchdog looks within the timeout."""

_MOST_SECONDS = 1.0


_MODULES_OF_THREADS = ("tensorflow.", "multiprocessing.", "tfdist.runtime.collectives.")
"""Modules with the classes of the threads that TensorFlow starts for a strategy, for replicas and for collectives, and
of those in which a script's collectives run while it goes on."""


class _Mark:
    """Put on a frame as its trace function, to know it again. What held the frame would keep all that it has in
    variables."""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> _Mark:
        return self


@dataclass(frozen=True)
class _Call:
    """A call into the library.

    Attributes:
        known_by: The mark of its frame, or the frame itself, where a debugger or the like traces it.
        place: The instruction that it was at.
        since: When it was seen first.
    """

    known_by: _Mark | FrameType
    place: int
    since: float

    @classmethod
    def begun(cls, frame: FrameType, now: float) -> _Call:
        """A call that is seen for the first time."""
        if frame.f_trace is not None and not isinstance(frame.f_trace, _Mark):
            return cls(frame, frame.f_lasti, now)
        mark = _Mark()
        frame.f_trace = mark
        return cls(mark, frame.f_lasti, now)

    def is_in(self, frame: FrameType) -> bool:
        """Returns whether a frame is still in this call."""
        return self.known_by in (frame, frame.f_trace) and self.place == frame.f_lasti


class Watchdog:
    """Watches the main thread of this process, and the threads that run replicas and collectives.

    Args:
        timeout: Returns the seconds that one call into TensorFlow may take at the moment.
        end: Called once, in the watching thread, with the error; it is to end the process.
        library: The folder of the library whose calls count besides exchanges in shared memory; by default
            TensorFlow's.
        clock: Seconds, never going back; read once a look.
    """

    def __init__(
        self,
        timeout: Callable[[], float],
        end: Callable[[WorkerFailedError], None],
        library: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = timeout
        self._end = end
        self._clock = clock
        tensorflow = library or Path(sys.modules["tensorflow"].__file__ or "").parent
        self._waiting_code = (str(tensorflow), str(Path(shared_memory.__file__).parent))
        self._waiting: dict[int, _Call] = {}

    def start(self) -> None:
        """Starts the watching thread, a daemon."""
        threading.Thread(target=self._watch, name="tfdist-watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(min(_MOST_SECONDS, self._timeout() / _LOOKS))
            now = self._clock()
            self._waiting = self._look(now)
            timeout = self._timeout()
            overdue = [thread for thread, call in self._waiting.items() if now - call.since > timeout]
            frame = frames_of_other_threads().get(overdue[0]) if overdue else None
            if frame is not None:
                self._end(self._error(frame, timeout))
                return

    def _look(self, now: float) -> dict[int, _Call]:
        """The calls under way, by thread; one that was under way at the last look keeps its start."""
        frames = frames_of_other_threads()
        calls = {}
        for thread in threading.enumerate():
            frame = frames.get(thread.ident or 0)
            if frame is not None and self._counts(thread) and frame.f_code.co_filename.startswith(self._waiting_code):
                call = self._waiting.get(thread.ident or 0)
                if call is None or not call.is_in(frame):
                    call = _Call.begun(frame, now)
                calls[thread.ident or 0] = call
        return calls

    @staticmethod
    def _counts(thread: threading.Thread) -> bool:
        return thread is threading.main_thread() or type(thread).__module__.startswith(_MODULES_OF_THREADS)

    def _error(self, frame: FrameType, timeout: float) -> WorkerFailedError:
        error = WorkerFailedError(
            f"This worker waited for others for more than {timeout:g} s: another worker did not come to the same "
            "step, hung for longer than --step-timeout or cannot be reached any more. See the logs of the others for "
            "where they are; if a step may take that long, set --step-timeout, or --first-step-timeout where it is the "
            "first one or outside of fit, evaluate and predict."
        )
        error.add_note("It waited here:\n" + "".join(traceback.format_stack(frame)))
        return error
