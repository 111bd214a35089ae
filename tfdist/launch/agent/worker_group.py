"""Worker group: this launcher's workers over all attempts of a job, started, ended and restarted together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tfdist.launch.agent.attempt import GroupAttempt
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.group_policy import RestartAfter, RestartPolicy
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobLifecycle, JobPhase
from tfdist.launch.peers.messages import AttemptEnded, Event, GiveUp, Hold, Restart, Stop, Stopped, StopRequested
from tfdist.launch.peers.root_cause import root_cause_first
from tfdist.launch.requeue_policy import REQUEUED
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import describe_signal
from tfdist.launch.worker.process_termination import SETTLE_SECONDS
from tfdist.rundir.failure import Failure

_TICK_SECONDS = 0.2
_VERDICT_SECONDS = 3 * SETTLE_SECONDS
"""Seconds that a launcher waits for the leader to tell whether there is another attempt."""
_NO_VERDICT = "the chief's launcher, which decides that, is gone or does not say"

OnRestart = Callable[[RunResult, Restart], None]


class WorkerGroup:
    """All attempts of a job.

    Args:
        assignments: Of the first attempt, one for each local worker.
        restarts: The restarts that are allowed, by default none; the leader's count.
        on_restart: Called with the result of an attempt that is followed by another one.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        dependencies: Dependencies,
        lifecycle: JobLifecycle,
        restarts: RestartPolicy | None = None,
        on_restart: OnRestart = lambda result, restart: None,
    ) -> None:
        self._assignments = list(assignments)
        self._dependencies = dependencies
        self._coordinator = dependencies.coordinator
        self._signals = dependencies.signals
        self._clock = dependencies.clock
        self._restarts = restarts or RestartPolicy(0)
        self._on_restart = on_restart
        self._lifecycle = lifecycle
        self._attempt = assignments[0].attempt

    def run(self) -> RunResult:
        """Starts the workers, as often as it takes, and returns when none is left."""
        while True:
            self._enter(JobPhase.RUNNING)
            result = GroupAttempt(
                [replace(assignment, attempt=self._attempt) for assignment in self._assignments], self._dependencies
            ).run()
            self._enter(JobPhase.STOPPING)
            if result.stop is not None or not result.failures:
                return self._end(result)
            verdict = self._decide(result)
            if isinstance(verdict, Stop):
                return self._end(replace(result, code=verdict.code, stop=verdict))
            if isinstance(verdict, GiveUp):
                return self._end(replace(result, advice=verdict.why))
            self._on_restart(result, verdict)
            self._enter(JobPhase.RESTARTING)
            interruption = self._wait_for_restart(verdict)
            if interruption is not None:
                return self._end(interruption)

    def _enter(self, phase: JobPhase) -> None:
        self._lifecycle.enter(phase, self._attempt)

    def _end(self, result: RunResult) -> RunResult:
        if result.stop is not None and result.stop.code == REQUEUED:
            stop = self._agreed_stop(result.stop, max(result.step, self._restarts.best))
            result = replace(result, code=stop.code, stop=stop)
        self._enter(JobPhase.FAILED if result.failures or result.stop else JobPhase.DONE)
        return result

    def _decide(self, result: RunResult) -> Restart | GiveUp | Stop:
        """Returns whether there is another attempt, which the leader decides as soon as all launchers have settled."""
        if not self._coordinator.leads:
            return self._hear_verdict()
        judgement, self._restarts = self._restarts.judge(result.failures, result.step)
        verdict: Restart | GiveUp
        if isinstance(judgement, RestartAfter):
            of = f"restart {judgement.number} of {self._restarts.most}; progress resets the count"
            verdict = Restart(self._attempt + 1, judgement.delay, of)
        else:
            verdict = GiveUp(judgement.why)
        if isinstance(verdict, Restart):
            # Before it is sent: what comes from then on belongs to the next attempt.
            self._coordinator.begin_again()
        self._coordinator.tell(verdict)
        return verdict

    def _agreed_stop(self, stop: Stop, step: int) -> Stop:
        """The stop as all launchers end by it; schedulers may go by the highest of their exit codes."""
        if self._coordinator.leads:
            stop = self._dependencies.judge_stop(stop, step)
            self._coordinator.tell(Stopped(stop))
            return stop
        deadline = self._clock() + _VERDICT_SECONDS
        while self._clock() < deadline and len(self._signals.received) < 2:
            # Asked first: the last message of a launcher that has hung up must still be handled.
            is_connected = self._coordinator.is_connected()
            for event in self._coordinator.events():
                if isinstance(event, Stopped):
                    return event.stop
            if not is_connected:
                break
            self._pause()
        return stop

    def _hear_verdict(self) -> Restart | GiveUp | Stop:
        """Waits for the leader's decision. A signal meanwhile is sent to it too: all launchers stop, or none does."""
        deadline = self._clock() + _VERDICT_SECONDS
        asked = False
        while self._clock() < deadline and len(self._signals.received) < 2:
            # Asked first: the last message of a launcher that has hung up must still be handled.
            is_connected = self._coordinator.is_connected()
            verdict = self._first_verdict()
            if verdict is not None:
                return verdict
            if not is_connected:
                break
            if self._signals.received and not asked:
                asked = True
                self._coordinator.tell(StopRequested(_stop(self._signals.received[0])))
            self._pause()
        return GiveUp(_NO_VERDICT if self._restarts.most else "")

    def _first_verdict(self) -> Restart | GiveUp | Stop | None:
        events = self._coordinator.events()
        for place, event in enumerate(events):
            verdict = _verdict(event)
            if isinstance(verdict, Restart):
                self._coordinator.begin_again()
                self._coordinator.keep(events[place + 1 :])
            if verdict is not None:
                return verdict
        return None

    def _wait_for_restart(self, verdict: Restart) -> RunResult | None:
        """Waits until the restart is due; returns the job's result when something ends the job before."""
        self._attempt = verdict.attempt
        deadline = self._clock() + verdict.delay
        while self._clock() < deadline:
            events = self._coordinator.events()
            for place, event in enumerate(events):
                if isinstance(event, AttemptEnded) and event.stop is None and not _is_lost(event):
                    # Another launcher was faster, and its part of the next attempt has failed already.
                    self._coordinator.keep(events[place:])
                    return None
                stopped = self._interruption(event)
                if stopped is not None:
                    return stopped
            if self._signals.received:
                return self._stopped(_stop(self._signals.received[0]))
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
        self._coordinator.tell(AttemptEnded(stop=stop))
        return RunResult(stop.code, stop=stop)

    def _lost(self, failures: Sequence[Failure]) -> RunResult:
        ordered = root_cause_first(failures)
        self._coordinator.tell(AttemptEnded(ordered))
        return RunResult(ordered[0].exit_code, ordered)

    def _pause(self) -> None:
        self._dependencies.wait([self._signals, *self._coordinator.sockets()], _TICK_SECONDS)
        self._signals.drain()


def _verdict(event: Event) -> Restart | GiveUp | Stop | None:
    """Returns what an event tells about another attempt, the stop of all included; None when it tells nothing."""
    if isinstance(event, Restart | GiveUp):
        return event
    return event.stop if isinstance(event, Hold | AttemptEnded) else None


def _is_lost(event: AttemptEnded) -> bool:
    """Returns whether the attempt ended because a launcher is gone, after which there is no other."""
    return any(failure.kind == "lost" for failure in event.failures)


def _stop(number: int) -> Stop:
    return Stop(128 + number, describe_signal(number))
