"""Fakes of workers, launchers and time, to run a worker group in milliseconds."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.exit_diagnosis import from_error, from_signal
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import Event
from tfdist.launch.peers.root_cause import root_cause_first
from tfdist.launch.signals import Signals
from tfdist.launch.worker.worker_process import ProcessSample, Worker
from tfdist.net.line_socket import Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State, WorkerState


class Clock:
    """Time passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, sources: Sequence[object], seconds: float) -> None:
        assert 0 < seconds <= 1
        self.now += seconds


def state(index: int = 0, step: int = 0, moves: int | None = None, **fields: Any) -> WorkerState:
    """The state of a worker."""
    known = {"address": None, "host": "h", "pid": 1, "attempt": 0, "state": State.STEP, "epoch": 0, "time": 0.0}
    return WorkerState(index=index, step=step, moves=step if moves is None else moves, **{**known, **fields})


def beat(step: int, **fields: Any) -> Message:
    """The heartbeat of a worker in step `step`."""
    return {"beat": state(0, step, **fields).to_dict()}


@dataclasses.dataclass
class FakeWorker:
    """Sends the messages of `says` and exits as in `ends`, at their times; without `ends`, only a signal ends it.

    `answers` maps what the launcher says to what the worker says to it, at once.
    """

    index: int
    clock: Clock
    says: Sequence[tuple[float, Message]] = ()
    ends: tuple[float, int] | None = None
    answers: dict[str, Message] = dataclasses.field(default_factory=dict)
    obeys_term: bool = True
    relays_term: bool = False
    leaves: bool = True
    stopped: bool = False
    threads: str = "SS"
    busy: bool = False
    address: str | None = None
    attempt: int = 0
    log: Path = Path("log")
    ended_by_launcher: bool = False
    told: dict[str, Any] | None = None
    pid: int = 1
    heard: list[str] = dataclasses.field(default_factory=list)
    got: list[Message] = dataclasses.field(default_factory=list)
    exit: int | None = None

    def fileno(self) -> int:
        return -1

    def receive(self) -> list[Message]:
        due = [message for time, message in self.says if self.clock.now >= time]
        self.says = [(time, message) for time, message in self.says if self.clock.now < time]
        for message in due:
            if isinstance(message.get("beat"), dict):
                message["beat"]["index"] = self.index
        return due

    def send(self, message: Message) -> None:
        (name,) = message
        self.heard.append(name)
        self.got.append(message)
        if name == "release" and self.leaves and self.exit is None:
            self.ends = (self.clock.now, 0)
        if name in self.answers:
            self.says = [*self.says, (self.clock.now, self.answers[name])]

    def poll(self) -> int | None:
        if self.exit is None and self.ends is not None and self.clock.now >= self.ends[0]:
            self.exit = self.ends[1]
        return self.exit

    def terminate(self) -> None:
        if self.exit is None:
            self.heard.append("TERM")
            self.ended_by_launcher = True
            if self.relays_term:
                self.says = [*self.says, (self.clock.now, {"signal": int(signal.SIGTERM)})]
            if self.obeys_term:
                self.exit = -signal.SIGTERM

    def kill(self) -> None:
        if self.exit is None:
            self.heard.append("KILL")
            self.ended_by_launcher = True
            self.exit = -signal.SIGKILL

    def sample(self) -> ProcessSample:
        return ProcessSample("T" if self.stopped else self.threads, self.clock.now if self.busy else 0.0, 0.0)

    def dump_natively(self) -> None:
        self.heard.append("native dump")

    def last_lines(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.heard.append("close")


class FakeCoordinator:
    """The other launchers, whose events come at the times of `script`."""

    def __init__(
        self, clock: Clock, leads: bool, remote: tuple[int, ...], script: Sequence[tuple[float, Event]]
    ) -> None:
        self.clock, self.leads, self.remote, self.script = clock, leads, remote, list(script)
        self.told: list[Event] = []
        self.gone_at = float("inf")

    def is_connected(self) -> bool:
        return self.clock.now < self.gone_at

    def sockets(self) -> Sequence[Any]:
        return ()

    def events(self) -> list[Event]:
        due = [event for time, event in self.script if self.clock.now >= time]
        self.script = [(time, event) for time, event in self.script if self.clock.now < time]
        return due

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        return root_cause_first(failures)

    def keep(self, events: Sequence[Event]) -> None:
        self.script[:0] = [(self.clock.now, event) for event in events]

    def begin_again(self) -> None:
        pass

    def close(self) -> None:
        pass


def diagnose(worker: Worker, code: int) -> Failure | None:
    if worker.told is not None:
        return from_error(dataclasses.replace(Failure.from_dict(worker.told), index=worker.index))
    return from_signal(worker.index, -code) if code < 0 and not worker.ended_by_launcher else None


def assignments(local: int, remote: int = 0) -> list[Assignment]:
    """The assignments of the first `local` workers of a job."""
    total = local + remote
    cluster = ",".join(f"127.0.0.1:{20000 + i}" for i in range(total)) if total > 1 else None
    return [Assignment("/r", 0, index, total, "script", "x.py", cluster=cluster) for index in range(local)]


@dataclasses.dataclass
class Stage:
    """Where a attempt happens.

    `workers` are the fakes by attempt and index; `signals_at` says when the launcher gets which signal.
    """

    workers: list[list[FakeWorker]]
    coordinator: FakeCoordinator
    clock: Clock
    signals: Signals
    signals_at: Sequence[tuple[float, int]] = ()

    def dependencies(self, grace: float = 30.0) -> Dependencies:
        return Dependencies(
            lambda assignment: self.workers[assignment.attempt][assignment.index],
            diagnose,
            self.coordinator,
            self.signals,
            grace=grace,
            clock=self.clock,
            wait=self._wait,
        )

    def _wait(self, sources: Sequence[object], seconds: float) -> None:
        self.clock.wait(sources, seconds)
        due = sum(self.clock.now >= time for time, _ in self.signals_at)
        self.signals.received[:] = [number for _, number in self.signals_at[:due]]


def stage(
    *attempts: Sequence[dict[str, Any]],
    leads: bool = True,
    remote: tuple[int, ...] = (),
    script: Sequence[tuple[float, Event]] = (),
    signals_at: Sequence[tuple[float, int]] = (),
) -> Stage:
    """A job with the workers of one or several attempts."""
    clock = Clock()
    workers = [
        [FakeWorker(index, clock, attempt=number, **fields) for index, fields in enumerate(attempt)]
        for number, attempt in enumerate(attempts)
    ]
    return Stage(workers, FakeCoordinator(clock, leads, remote, script), clock, Signals(), signals_at)
