"""Stops the workers of an attempt at one step, so that what they save is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tfdist.launch.agent.stop_point import StopPoint
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import BatchesBegun, Event, Hold, Stop, StopAt, StopRequested
from tfdist.launch.worker.worker_handle import Worker

ANSWER_SECONDS = 3.0
"""How long held workers may take to say what they have begun."""


class CoordinatedStop:
    """Who asked the job to stop, and how far that is.

    ::

        asked --> all workers hold --> every one has said what it has begun --> all stop after the same batch

    Args:
        workers: This launcher's workers by their indices.
        control: The line to the other launchers.
        grace: Seconds from the asking until the workers are ended, wherever they are.
        clock: Seconds, never going back.
    """

    def __init__(
        self, workers: Mapping[int, Worker], control: Coordinator, grace: float, clock: Callable[[], float]
    ) -> None:
        self._workers = workers
        self._control = control
        self._grace = grace
        self._clock = clock
        self._asked = self._deadline = 0.0
        self._halt: StopPoint | None = None
        self._agreed = False
        self.stop: Stop | None = None
        self.why_abrupt = ""
        """Why the workers did not stop at one step, as far as this launcher knows; empty where they did."""

    def ask(self, stop: Stop, working: Iterable[int]) -> None:
        """Somebody asks this launcher to stop the job, whose workers `working` are not done; again changes nothing."""
        if self.stop is not None:
            return
        self._begin(stop)
        if self._control.leads:
            self._agreed = True
            self._halt = StopPoint(working)
            self._control.tell(Hold(stop))
            self._send({"hold": True})
        else:
            self._control.tell(StopRequested(stop))

    def hear(self, event: Event, working: Iterable[int]) -> None:
        """Takes in what another launcher says."""
        if isinstance(event, StopRequested):
            self.ask(event.stop, working)
        elif isinstance(event, Hold):
            self._begin(event.stop)
            self._agreed = True
            self._send({"hold": True})
        elif isinstance(event, BatchesBegun) and self._halt is not None:
            self._halt.answer(event.index, event.count)
        elif isinstance(event, StopAt):
            self._stop_after(event.after)

    def conclude(self, stop: Stop | None) -> None:
        """The attempt has ended elsewhere, by `stop` or, None, by a failure: then a stop that was not agreed on yet is
        to be asked for again."""
        if stop is not None or not self._agreed:
            self.stop = stop

    def begun(self, index: int, count: int | None) -> None:
        """A worker of this launcher says what it has begun, or is done."""
        if self._halt is not None:
            self._halt.answer(index, count)
        elif self.stop is not None and not self._control.leads:
            self._control.tell(BatchesBegun(index, count))

    def tick(self) -> bool:
        """Gets on; returns whether the workers are to be ended now, wherever they are."""
        if self.stop is None:
            return False
        if self._halt is not None and not self._halt.silent:
            after, self._halt = self._halt.after(), None
            if after is None:
                self.why_abrupt = "none was inside of fit"
                return True
            self._deadline = self._asked + self._grace
            self._control.tell(StopAt(after))
            self._stop_after(after)
        if self._clock() <= self._deadline:
            return False
        self.why_abrupt = f"not all had stopped within {self._grace:g} s (--grace)"
        if self._halt is not None:
            silent = ", ".join(map(str, self._halt.silent))
            self.why_abrupt = f"worker(s) {silent} did not say which step they are in"
        return True

    def _begin(self, stop: Stop) -> None:
        self.stop = stop
        self._asked = self._clock()
        # The leader's answers come soon or never; a launcher that only follows leaves the leader its time.
        self._deadline = self._asked + (min(ANSWER_SECONDS, self._grace) if self._control.leads else self._grace)

    def _stop_after(self, after: int) -> None:
        assert self.stop is not None
        self._send({"stop": {"after": after, "code": self.stop.code}})

    def _send(self, message: dict[str, object]) -> None:
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.send(message)
