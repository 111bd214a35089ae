"""Watch over a launch that runs: shows the output, passes signals on, and sees all hosts to their end together.

The launchers on the hosts know of one another, and end together by themselves. This watch helps where they cannot: when
a host is lost, when one has ended long before the others, and when somebody asks for the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.launch.elastic.follower import WITHOUT_CHIEF
from tfdist.launch.signals import Signals, describe_signal
from tfdist.multihost.launching.host_group import HostGroup, HostState, LaunchHost
from tfdist.multihost.launching.host_link import HostProblem, names
from tfdist.multihost.launching.output_display import OutputDisplay
from tfdist.multihost.launching.start_again import COMING, StartAgain, was_killed

SETTLE_SECONDS = 20.0
"""Seconds that the others may go on after one host has failed: their launchers tell one another within less."""
LEAVE_SECONDS = 120.0
"""Seconds that the others may go on after one host is done."""
STOP_SECONDS = 30.0
"""Seconds beyond the grace of its workers that a host may take to end; it kills what is left before that."""
REFUSED_SECONDS = 5.0
"""After which a host of an elastic run is told of that refuses its part, and has most likely been refused with all."""
_CONFIRM_SECONDS = 10.0
_SIGTERM = 15


@dataclass(frozen=True)
class Cause:
    """The cause of the end of a run: what ended it first.

    Attributes:
        time: When, by the monotonic clock.
        code: The exit code that belongs to it.
        host: The host; None for a signal to this process.
        text: What to say of it; empty where the host's own report says it.
    """

    time: float
    code: int
    host: str | None = None
    text: str = ""


class RunWatch:
    """Sees started hosts to their end.

    Args:
        grace: Seconds in which workers may come to a step boundary.
        is_elastic: Whether the run may go on without a host, but for the first, which has the chief: its launcher alone
            decides that.
        again: How lost hosts of such a run start again; None where they do not.
    """

    def __init__(
        self,
        group: HostGroup,
        display: OutputDisplay,
        signals: Signals,
        grace: float,
        *,
        is_elastic: bool = False,
        again: StartAgain | None = None,
    ) -> None:
        self._is_elastic = is_elastic
        self._again = again
        self._group = group
        self._display = display
        self._signals = signals
        self._grace = grace
        self._passed_on = 0
        self._deadline: float | None = None
        self._has_told = False
        self._refused: list[tuple[float, LaunchHost]] = []
        self.cause: Cause | None = None

    def run(self, is_enough: Callable[[], bool] = lambda: False) -> int:
        """Watches until all hosts have ended, or until it is enough; returns the exit code of the launch."""
        while self._goes_on() and not is_enough():
            self._step()
        if self.cause is None or self.cause.code == 0:
            self._tell_refused(at_once=True)
        return 0 if self.cause is None else self.cause.code

    def _goes_on(self) -> bool:
        is_to_come = self.cause is None and self._again is not None and self._again.is_without_chief
        return is_to_come or any(host.state is HostState.RUNNING for host in self._group.hosts)

    def _step(self) -> None:
        for host, heard in self._group.hear():
            if host.state in COMING:
                if self._again is not None:
                    self._again.returns.take(host, heard)
                continue
            # What hosts say that end without the chief's is not news.
            is_ending = self._again is not None and self._again.is_without_chief and host is not self._group.hosts[0]
            self._display.show(host.host.name, heard.out, [] if is_ending else heard.err)
            self._check_program(host)
            for said in heard.answers:
                self._take(host, said)
            self._check_link(host)
        self._pass_signals_on()
        if self.cause is None:
            self._tell_refused()
        if self._again is not None and self.cause is None:
            self._start_again(self._again)
        self._help_to_an_end()

    def _start_again(self, again: StartAgain) -> None:
        was_without = again.is_without_chief
        problem = again.step(self._group.hosts, self._display)
        if problem:
            host = self._group.hosts[0].host.name
            self._note(Cause(time.monotonic(), WorkerFailedError.exit_code, host, problem))
        elif was_without and not again.is_without_chief:
            self._has_told, self._deadline = False, None
        elif again.is_too_late() and not self._has_told:
            self._stop(_SIGTERM)

    def _take(self, host: LaunchHost, said: dict[str, object]) -> None:
        formed, ended = said.get("formed"), said.get("ended")
        if isinstance(formed, str):
            host.formed = formed
        if isinstance(ended, int) and not host.is_over:
            host.state, host.code, host.last_output = HostState.ENDED, ended, str(said.get("output") or "")
            self._display.end(host.host.name, ended)
            self._note_end(host, Cause(time.monotonic(), ended, host.host.name))

    def _check_program(self, host: LaunchHost) -> None:
        problem = None if host.is_over or host.link is None else host.link.failure_of_program()
        if problem is not None:
            self._note(_loss(host, problem))

    def _check_link(self, host: LaunchHost) -> None:
        code = None if host.is_over or host.link is None else host.link.poll()
        if code is None or host.link is None:
            return
        problem = host.link.explain_loss()
        host.lose(problem)
        self._note_end(host, _loss(host, problem))

    def _note_end(self, host: LaunchHost, cause: Cause) -> None:
        if self.cause is None and self._is_elastic and self._is_outlived(host):
            return
        self._note(cause)

    def _is_outlived(self, host: LaunchHost) -> bool:
        """Takes note of the end of a host's part in an elastic run; returns whether that is no end of the run."""
        again, name = self._again, host.host.name
        how = f"has ended with exit code {host.code}" if host.problem is None else host.problem.what
        if host is self._group.hosts[0]:
            if again is None or not again.may_lose_chief or not was_killed(host):
                return False
            again.lose_chief()
            self._display.say(f"warning: {name}, which has the chief, {how}; the others end, and then all start again")
            return True
        if host.code == 0 or (again is not None and again.is_without_chief):
            return True
        has_lost_chief = self._display.held(name).startswith(f"error: {WITHOUT_CHIEF}")
        if has_lost_chief and again is not None:
            chief = self._group.hosts[0].host.name
            self._display.say(f"warning: {name} has lost the launcher of {chief}, and has ended")
        elif host.code == UsageError.exit_code:
            # The chief's host may be about to say the same, which ends the run.
            self._refused.append((time.monotonic() + REFUSED_SECONDS, host))
        else:
            self._tell_loss(host, how)
        if again is not None:
            again.lose(host, has_lost_chief=has_lost_chief)
        return True

    def _tell_loss(self, host: LaunchHost, how: str) -> None:
        self._display.release(host.host.name)
        self._display.say(f"warning: {host.host.name} {how}; the others go on where --min-workers lets them")

    def _tell_refused(self, *, at_once: bool = False) -> None:
        while self._refused and (at_once or time.monotonic() >= self._refused[0][0]):
            _, host = self._refused.pop(0)
            self._tell_loss(host, f"has ended with exit code {host.code}")

    def _note(self, cause: Cause) -> None:
        """Keeps the first cause; that a host is done is none while others may still fail."""
        if self.cause is None or self.cause.code == 0:
            self.cause = cause

    def _pass_signals_on(self) -> None:
        for number in self._signals.received[self._passed_on :]:
            self._passed_on += 1
            text = f"stopped: {describe_signal(number, 'tfdist launch')}"
            self._note(Cause(time.monotonic(), 128 + number, None, text))
            self._stop(number)

    def _help_to_an_end(self) -> None:
        now = time.monotonic()
        if self.cause is not None and not self._has_told:
            patience = LEAVE_SECONDS if self.cause.code == 0 else 0.0 if self.cause.text else SETTLE_SECONDS
            if now > self.cause.time + patience:
                self._stop(_SIGTERM)
        if self._deadline is not None and now > self._deadline:
            self._give_up(now)

    def _stop(self, number: int) -> None:
        self._has_told = True
        self._group.tell(signal=number)
        self._deadline = self._deadline or time.monotonic() + self._grace + STOP_SECONDS

    def _give_up(self, now: float) -> None:
        """Closes the connections, at which hosts stop by themselves, and then does without their word."""
        late = [host for host in self._group.hosts if host.state is HostState.RUNNING]
        assert self._deadline is not None
        for host in late:
            if host.link is not None:
                host.link.hang_up()
        if now > self._deadline + _CONFIRM_SECONDS:
            for host in late:
                host.state = HostState.LOST
            self._display.say(
                f"warning: {names(host.host.name for host in late)} did not confirm that all processes have ended "
                "there; look for them by: pgrep -af tfdist"
            )


def _loss(host: LaunchHost, problem: HostProblem) -> Cause:
    text = f"error: {host.host.name} {problem.what}. The run was stopped on all hosts."
    return Cause(time.monotonic(), WorkerFailedError.exit_code, host.host.name, text)
