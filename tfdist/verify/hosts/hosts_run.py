"""One run of the target on all hosts, through what happens to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.launch.elastic.leader import GROWS
from tfdist.launch.signals import Signals
from tfdist.launch.worker_requests import TraceRequest
from tfdist.net.bounded_wait import wait_for
from tfdist.verify.hosts.host_process import HostProcess
from tfdist.verify.hosts.schedule import CHIEF, HostEvent
from tfdist.verify.runs import STOPPED, Interrupted, raise_if_interrupted

_TICK_SECONDS = 0.05
_WITHOUT_CHIEF_SECONDS = 120.0
"""Seconds that the others may take to end when the chief's host is lost; the promise is half a minute."""
_END_SECONDS = 60.0
"""Seconds that the launchers may take to end after the first of them."""


class HostsRunError(Exception):
    """The run failed, or went on otherwise than it may.

    Attributes:
        code: The exit code of the verification.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Reached:
    """The point of the run at which something happened to its hosts.

    Attributes:
        step: Steps of the run that were done.
        attempt: The attempt.
    """

    step: int
    attempt: int

    @classmethod
    def read(cls, path: Path) -> Reached:
        """Returns what `StepHolds` wrote."""
        return cls(**json.loads(path.read_text()))


@dataclass
class HostsRun:
    """One run.

    Attributes:
        hosts: All hosts, the chief's first.
        trace: What they trace; it has one hold for each event.
        events: What happens at the holds.
        tell: Called with progress messages.
        signals: A signal ends every wait.
        comes_back_seconds: How long a launcher that starts may take to reach the chief's.
    """

    hosts: Sequence[HostProcess]
    trace: TraceRequest
    events: Sequence[HostEvent]
    tell: Callable[[str], None]
    signals: Signals
    comes_back_seconds: float = 120.0
    _present: set[int] = field(default_factory=set, init=False)

    def run(self) -> list[Reached]:
        """Runs the job to its end; returns where each event was.

        Raises:
            HostsRunError: It failed.
            UsageError: It came to its end before all has happened.
            Interrupted: A signal came.
        """
        try:
            self._start(range(len(self.hosts)))
            reached = [self._do(number, event) for number, event in enumerate(self.events)]
            self._wait_for_the_end()
            return reached
        finally:
            for host in self.hosts:
                host.lose()

    def _do(self, number: int, event: HostEvent) -> Reached:
        file = self.trace.reached_file(number)
        self._until(file.exists, f"step {self.trace.holds[number]}", None)
        if not file.exists():
            raise UsageError(
                f"The run came to its end before event {number + 1} of {len(self.events)}: no checkpoint was made "
                "between the start of its last attempt and its last step. Give more epochs, or checkpoints more often "
                "(in a config, --set checkpoint.every_steps=N)."
            )
        reached = Reached.read(file)
        self.tell(f"  after step {reached.step}: {event.text}")
        if event.kind == "back":
            self._take_in(event.hosts)
        else:
            for host in event.hosts:
                self.hosts[host].lose(is_cut=event.is_cut)
                self._present.discard(host)
        self.trace.passed_file(number).touch()
        if event.kind == "restarted":
            self._start(event.hosts)
        elif event.kind == "chief lost":
            self._see_all_end()
            self._start(range(len(self.hosts)))
        return reached

    def _start(self, hosts: Sequence[int]) -> None:
        for host in hosts:
            self.hosts[host].start()
            self._present.add(host)

    def _take_in(self, hosts: Sequence[int]) -> None:
        """Starts the launchers of hosts, and waits until the workers have been asked to stop for one of them."""
        chief = self.hosts[CHIEF]
        before = chief.said.count(GROWS)
        self._start(hosts)
        what = "the chief's launcher takes a host in that is back"
        self._until(lambda: chief.said.count(GROWS) > before, what, self.comes_back_seconds)

    def _see_all_end(self) -> None:
        """Waits until no launcher is left without the chief's, each of which must say by its exit code why."""
        deadline = time.monotonic() + _WITHOUT_CHIEF_SECONDS
        while any(self.hosts[host].code is None for host in self._present):
            self._pause()
            if time.monotonic() > deadline:
                left = ", ".join(self._name(host) for host in sorted(self._present) if self.hosts[host].code is None)
                raise HostsRunError(
                    f"the chief's host was lost, and after {_WITHOUT_CHIEF_SECONDS:g} s {left} had not ended",
                    WorkerFailedError.exit_code,
                )
        for host in sorted(self._present):
            code = self.hosts[host].code
            if code != WorkerFailedError.exit_code:
                raise HostsRunError(
                    f"the chief's host was lost, and {self._name(host)} ended with exit code {code} instead of "
                    f"{WorkerFailedError.exit_code}{self._last_words(host)}",
                    WorkerFailedError.exit_code,
                )
            self.hosts[host].lose()
        self._present.clear()

    def _wait_for_the_end(self) -> None:
        self._until(lambda: all(self.hosts[host].code == 0 for host in self._present), "the end", None)
        if self.hosts[CHIEF].code is None:
            raise HostsRunError("the run did not end with the other hosts", WorkerFailedError.exit_code)

    def _until(self, condition: Callable[[], bool], what: str, seconds: float | None) -> None:
        """Waits until a condition holds, or the job has come to its end.

        Without a bound of its own where the job has one: its launchers end it when it makes no progress.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not condition():
            ended = [host for host in sorted(self._present) if self.hosts[host].code is not None]
            if ended:
                self._see_the_end(ended[0])
                return
            if deadline is not None and time.monotonic() > deadline:
                raise HostsRunError(
                    f"{what}: that did not happen within {seconds:g} s{self._last_words(CHIEF)}",
                    WorkerFailedError.exit_code,
                )
            self._pause()

    def _see_the_end(self, first: int) -> None:
        """Waits until all launchers have ended, once the first has. Raises `HostsRunError` where they fail to."""
        deadline = time.monotonic() + _END_SECONDS
        while any(self.hosts[host].code is None for host in self._present) and time.monotonic() < deadline:
            self._pause()
        codes = {host: self.hosts[host].code for host in sorted(self._present)}
        if not any(codes.values()) and None not in codes.values():
            return
        # The chief's launcher decides: what it says is why the others have ended.
        host = CHIEF if codes[CHIEF] else first if codes[first] else next(h for h, code in codes.items() if code != 0)
        code = codes[host]
        if code in STOPPED:
            raise Interrupted(code)
        how = "does not end" if code is None else f"ended with exit code {code}"
        raise HostsRunError(f"{self._name(host)} {how}{self._last_words(host)}", code or WorkerFailedError.exit_code)

    def _last_words(self, host: int) -> str:
        said = self.hosts[host].last_words
        return f" ({said})" if said else ""

    def _name(self, host: int) -> str:
        return f"host {host} ({self.hosts[host].place.name})"

    def _pause(self) -> None:
        wait_for([self.signals], _TICK_SECONDS)
        raise_if_interrupted(self.signals)
