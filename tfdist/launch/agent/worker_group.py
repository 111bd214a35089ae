"""The workers of a job as one launcher sees them: started together, ended together, and started again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tfdist.launch.agent.attempt import GroupAttempt
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.first_failure import first_to_last
from tfdist.launch.agent.job_phases import JobLifecycle, JobPhase
from tfdist.launch.agent.process_termination import SETTLE_SECONDS
from tfdist.launch.agent.restart_policy import RestartAfter, RestartPolicy
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import AttemptEnded, Event, GiveUp, Hold, Restart, Stop, StopRequested
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import describe_signal
from tfdist.rundir.failure import Failure

_TICK_SECONDS = 0.2
_VERDICT_SECONDS = 3 * SETTLE_SECONDS
"""How long a launcher waits for the leader to say whether there is another attempt."""
_NO_VERDICT = "the chief's launcher, which decides that, is gone or does not say"

OnRestart = Callable[[RunResult, Restart], None]


class WorkerGroup:
    """All attempts of a job.

    Args:
        assignments: One a local worker, of the first attempt.
        around: What the attempts have to do with.
        life: The job's, which is forming.
        max_restarts: Restarts without progress that are allowed; the leader's count.
        tell: Called with how an attempt ended and that there is another one.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        around: Dependencies,
        life: JobLifecycle,
        max_restarts: int = 0,
        tell: OnRestart = lambda outcome, restart: None,
    ) -> None:
        self._assignments = list(assignments)
        self._around = around
        self._restarts = RestartPolicy(max_restarts)
        self._tell = tell
        self._life = life
        self._attempt = assignments[0].attempt

    def run(self) -> RunResult:
        """Starts the workers, as often as it takes, and returns when none is left."""
        while True:
            self._go(JobPhase.RUNNING)
            outcome = GroupAttempt(
                [replace(assignment, attempt=self._attempt) for assignment in self._assignments], self._around
            ).run()
            self._go(JobPhase.STOPPING)
            if outcome.stop is not None or not outcome.failures:
                return self._end(outcome)
            verdict = self._decide(outcome)
            if isinstance(verdict, Stop):
                return self._end(replace(outcome, code=verdict.code, stop=verdict))
            if isinstance(verdict, GiveUp):
                return self._end(replace(outcome, advice=verdict.why))
            self._tell(outcome, verdict)
            self._go(JobPhase.RESTARTING)
            interruption = self._wait_for_restart(verdict)
            if interruption is not None:
                return self._end(interruption)

    def _go(self, phase: JobPhase) -> None:
        self._life.enter(phase, self._attempt)

    def _end(self, outcome: RunResult) -> RunResult:
        self._go(JobPhase.FAILED if outcome.failures or outcome.stop else JobPhase.DONE)
        return outcome

    def _decide(self, outcome: RunResult) -> Restart | GiveUp | Stop:
        """Whether there is another attempt: the leader's word, which it gives as soon as all have settled."""
        if not self._around.control.leads:
            return self._hear_verdict()
        judgement, self._restarts = self._restarts.judge(outcome.failures, outcome.step)
        verdict: Restart | GiveUp
        if isinstance(judgement, RestartAfter):
            of = f"restart {judgement.number} of {self._restarts.most}; progress begins the count anew"
            verdict = Restart(self._attempt + 1, judgement.delay, of)
        else:
            verdict = GiveUp(judgement.why)
        if isinstance(verdict, Restart):
            # Before it is told: what comes from then on belongs to the next attempt.
            self._around.control.begin_again()
        self._around.control.tell(verdict)
        return verdict

    def _hear_verdict(self) -> Restart | GiveUp | Stop:
        """What the leader decides. A signal meanwhile is its matter too: all launchers stop, or none does."""
        control, signals = self._around.control, self._around.signals
        deadline = self._around.clock() + _VERDICT_SECONDS
        asked = False
        while self._around.clock() < deadline and len(signals.received) < 2:
            # Asked first: what a launcher that hangs up said last is still to be heard.
            is_connected = control.is_connected()
            verdict = self._first_verdict()
            if verdict is not None:
                return verdict
            if not is_connected:
                break
            if signals.received and not asked:
                asked = True
                control.tell(StopRequested(_stop(signals.received[0])))
            self._pause()
        return GiveUp(_NO_VERDICT if self._restarts.most else "")

    def _first_verdict(self) -> Restart | GiveUp | Stop | None:
        events = self._around.control.events()
        for place, event in enumerate(events):
            verdict = _verdict(event)
            if isinstance(verdict, Restart):
                self._around.control.begin_again()
                self._around.control.keep(events[place + 1 :])
            if verdict is not None:
                return verdict
        return None

    def _wait_for_restart(self, verdict: Restart) -> RunResult | None:
        """Waits for the restart's time; returns how the job ends when something comes between."""
        self._attempt = verdict.attempt
        control, signals = self._around.control, self._around.signals
        deadline = self._around.clock() + verdict.delay
        while self._around.clock() < deadline:
            events = control.events()
            for place, event in enumerate(events):
                if isinstance(event, AttemptEnded) and event.stop is None and not _is_lost(event):
                    # Another launcher was quicker, and its part of the next attempt has failed already.
                    control.keep(events[place:])
                    return None
                stopped = self._interruption(event)
                if stopped is not None:
                    return stopped
            if signals.received:
                return self._stopped(_stop(signals.received[0]))
            self._pause()
        return None

    def _interruption(self, event: Event) -> RunResult | None:
        if isinstance(event, StopRequested | Hold):
            return self._stopped(event.stop)
        if isinstance(event, AttemptEnded) and event.stop is not None:
            return RunResult(event.stop.code, stop=event.stop)
        if isinstance(event, AttemptEnded):
            return self._lost(event.failures)
        return None

    def _stopped(self, stop: Stop) -> RunResult:
        self._around.control.tell(AttemptEnded(stop=stop))
        return RunResult(stop.code, stop=stop)

    def _lost(self, failures: Sequence[Failure]) -> RunResult:
        ordered = first_to_last(failures)
        self._around.control.tell(AttemptEnded(ordered))
        return RunResult(ordered[0].exit_code, ordered)

    def _pause(self) -> None:
        self._around.wait([self._around.signals, *self._around.control.sockets()], _TICK_SECONDS)
        self._around.signals.drain()


def _verdict(event: Event) -> Restart | GiveUp | Stop | None:
    """What the leader says of another attempt, if that is what it says: that all stop, too."""
    if isinstance(event, Restart | GiveUp):
        return event
    return event.stop if isinstance(event, Hold | AttemptEnded) else None


def _is_lost(event: AttemptEnded) -> bool:
    """Whether the attempt ends because a launcher is gone, so that there is no other."""
    return any(failure.kind == "lost" for failure in event.failures)


def _stop(number: int) -> Stop:
    return Stop(128 + number, describe_signal(number))
