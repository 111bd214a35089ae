"""Holds of a traced run: the chief's worker waits after some steps while `tfdist verify --kill --hosts` acts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tfdist.errors import WorkerFailedError
from tfdist.launch.trace_request import TraceRequest
from tfdist.rundir import atomic_files

HOLD_SECONDS = 300.0
_TICK_SECONDS = 0.02


@dataclass
class StepHolds:
    """The holds of a request that this attempt has before it.

    Attributes:
        request: Has the steps, and where the files are.
        attempt: The attempt.
        seconds: How long a hold may take.
        sleep: Waits for some seconds.
    """

    request: TraceRequest
    attempt: int
    seconds: float = HOLD_SECONDS
    sleep: Callable[[float], None] = time.sleep
    _next: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        while self._is_left() and self.request.passed_file(self._next).exists():
            self._next += 1

    def wait(self, step: int, saved: int) -> bool:
        """Waits if the run is to be held here; returns whether it was.

        Args:
            step: Steps of the run that are done.
            saved: Checkpoints that the attempt has made.

        Raises:
            WorkerFailedError: Nobody lets the run go on.
        """
        if not self._is_left() or step < self.request.holds[self._next] or not saved:
            return False
        reached = {"step": step, "attempt": self.attempt}
        atomic_files.write_json(self.request.reached_file(self._next), reached, named_by="--keep")
        deadline = time.monotonic() + self.seconds
        while not self.request.passed_file(self._next).exists():
            if time.monotonic() > deadline:
                raise WorkerFailedError(
                    f"This run was held after step {step} by `tfdist verify`, which did not let it go on within "
                    f"{self.seconds:g} s: it has ended, or this machine is overloaded. Start it again."
                )
            self.sleep(_TICK_SECONDS)
        self._next += 1
        return True

    def _is_left(self) -> bool:
        return self._next < len(self.request.holds)
