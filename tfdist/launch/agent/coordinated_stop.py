"""Coordinated stop: all workers of an attempt stop after the same batch, so that the checkpoint they save is whole.

A worker that stopped on its own would leave the others in a step that never ends. So every worker is held first, and
tells how many batches it has begun. These counts differ by one at most, and all workers can finish as many batches as
any of them has begun: that is where they stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import BatchesBegun, Event, Hold, Stop, StopAt, StopRequested
from tfdist.launch.worker.worker_process import Worker

ANSWER_SECONDS = 3.0
"""Seconds that held workers may take to tell how many batches they have begun."""


class StopPoint:
    """The point at which held workers can all stop: decided from their answers, without any effect.

    Args:
        asked: The workers that were told to hold.
    """

    def __init__(self, asked: Iterable[int]) -> None:
        self._silent = set(asked)
        self._begun: dict[int, int] = {}

    @property
    def silent(self) -> tuple[int, ...]:
        """The workers that have not answered."""
        return tuple(sorted(self._silent))

    def answer(self, index: int, begun: int | None) -> None:
        """Records how many batches a worker has begun; None when it is not in `fit`, or is gone."""
        self._silent.discard(index)
        if begun is not None:
            self._begun[index] = max(begun, self._begun.get(index, 0))

    def after(self) -> int | None:
        """After how many batches to stop; None when no worker is inside of `fit`."""
        return max(self._begun.values(), default=None)


class CoordinatedStop:
    """The stop of one attempt: who asked for it, and how far it is.

    ::

        requested --> all workers hold --> every one has said what it has begun --> all stop after the same batch

    Args:
        workers: This launcher's workers by index.
        grace: Seconds from the request until the workers are ended, wherever they are.
    """

    def __init__(
        self, workers: Mapping[int, Worker], coordinator: Coordinator, grace: float, clock: Callable[[], float]
    ) -> None:
        self._workers = workers
        self._coordinator = coordinator
        self._grace = grace
        self._clock = clock
        self._requested_at = self._deadline = 0.0
        self._point: StopPoint | None = None
        self._agreed = False
        self.stop: Stop | None = None
        self.why_abrupt = ""
        """The reason why workers did not stop after one step, as far as this launcher knows; empty where they did."""

    def request(self, stop: Stop, working: Iterable[int]) -> None:
        """Requests the stop of the job, whose workers `working` are not done; does nothing after the first request."""
        if self.stop is not None:
            return
        self._begin(stop)
        if self._coordinator.leads:
            self._agreed = True
            self._point = StopPoint(working)
            self._coordinator.tell(Hold(stop))
            self._send({"hold": True})
        else:
            self._coordinator.tell(StopRequested(stop))

    def hear(self, event: Event, working: Iterable[int]) -> None:
        """Handles an event of another launcher."""
        if isinstance(event, StopRequested):
            self.request(event.stop, working)
        elif isinstance(event, Hold):
            self._begin(event.stop)
            self._agreed = True
            self._send({"hold": True})
        elif isinstance(event, BatchesBegun) and self._point is not None:
            self._point.answer(event.index, event.count)
        elif isinstance(event, StopAt) and self.stop is not None:
            self._stop_after(event.after)

    def conclude(self, stop: Stop | None) -> None:
        """The attempt has ended on another launcher, by `stop` or, None, by a failure.

        After a failure, a stop that the launchers had not agreed on yet is dropped: it must be requested again.
        """
        if stop is not None or not self._agreed:
            self.stop = stop

    def begun(self, index: int, count: int | None) -> None:
        """A worker of this launcher says how many batches it has begun; None when it is done or not in `fit`."""
        if self._point is not None:
            self._point.answer(index, count)
        elif self.stop is not None and not self._coordinator.leads:
            self._coordinator.tell(BatchesBegun(index, count))

    def tick(self) -> bool:
        """Advances the stop; returns whether to end the workers now, wherever they are."""
        if self.stop is None:
            return False
        if self._point is not None and not self._point.silent:
            after, self._point = self._point.after(), None
            if after is None:
                self.why_abrupt = "none was inside of fit"
                return True
            self._deadline = self._requested_at + self._grace
            self._coordinator.tell(StopAt(after))
            self._stop_after(after)
        if self._clock() <= self._deadline:
            return False
        self.why_abrupt = f"not all had stopped within {self._grace:g} s (--grace)"
        if self._point is not None:
            silent = ", ".join(map(str, self._point.silent))
            self.why_abrupt = f"worker(s) {silent} did not say which step they are in"
        return True

    def _begin(self, stop: Stop) -> None:
        self.stop = stop
        self._requested_at = self._clock()
        # Workers answer the leader within ANSWER_SECONDS or not at all; the other launchers give the leader more time.
        limit = min(ANSWER_SECONDS, self._grace) if self._coordinator.leads else self._grace
        self._deadline = self._requested_at + limit

    def _stop_after(self, after: int) -> None:
        assert self.stop is not None
        self._send({"stop": {"after": after, "code": self.stop.code}})

    def _send(self, message: dict[str, object]) -> None:
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.send(message)
