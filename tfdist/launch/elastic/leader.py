"""The leader of an elastic job, which is the chief's launcher: it decides who takes part, and whether the job goes on.

A generation whose launchers do not meet: which of them are lost, so that the next one begins without them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError, PortTakenError, RunDirError, TfdistError, UsageError
from tfdist.launch.agent.group_policy import FIRST_DELAY_SECONDS, RestartAfter
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.elastic.gathering import Gathering
from tfdist.launch.elastic.generation import CHIEF, Generation, JobSteps, chief_ports, job_of_generation
from tfdist.launch.elastic.membership_policy import (
    Begin,
    HostLosses,
    MembershipPolicy,
    TooFew,
    Wait,
    go_on_without,
    that_fit,
)
from tfdist.launch.environment import read_token
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.job_terms import JobTerms
from tfdist.launch.peers.messages import Stop
from tfdist.launch.peers.peer_links import lost_launcher
from tfdist.launch.rendezvous.followers import raise_limit
from tfdist.launch.rendezvous.join_barrier import LateError
from tfdist.launch.rendezvous.missing_workers import describe_outcome
from tfdist.launch.run_dir.run_records import change_phase
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import LauncherStopped, Signals, describe_signal
from tfdist.net.bounded_wait import wait_for
from tfdist.net.port_reservation import PortReservation
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.text import format_ranges

if TYPE_CHECKING:
    from tfdist.launch.elastic.gathering import Candidate

GROWS = "can take part: the workers stop at a step and start again with them"
"""The text that the chief's launcher adds to the names of hosts for which it stops the workers."""
_TICK_SECONDS = 0.2
_GROW_SECONDS = 2.0
"""Hosts that come within this time of one another are taken in together."""
_LEAVING_SECONDS = 5.0
"""Seconds that the launcher of a host that leaves may take to say so, once the workers of all have stopped."""


class ElasticLeader:
    """The chief's launcher, which decides."""

    def __init__(self, spec: JobSpec, options: ElasticOptions, steps: JobSteps, signals: Signals) -> None:
        self._spec = spec
        self._options = options
        self._steps = steps
        self._signals = signals
        self._candidates = spec.membership
        self._policy = MembershipPolicy(
            self._candidates.num_workers, options.min_workers, spec.start_timeout, options.rejoin_timeout
        )
        self._restarts = spec.restart_policy(outlives_loss=True)
        self._losses = HostLosses()
        terms = JobTerms(spec).offer()
        self._gathering = Gathering(
            self._candidates, terms, read_token(spec.environ), steps.say, is_out=self._losses.is_out
        )
        self._waiting_since: float | None = None
        self._has_begun = False
        self._members = 0

    def run(self) -> int:
        code, why = FormingError.exit_code, "the chief's launcher has ended"
        with PortReservation() as ports, contextlib.closing(self._gathering) as gathering:
            assert self._candidates.cluster is not None, "an elastic job has a list"
            ports.take(self._candidates.cluster.workers[CHIEF].port)
            # One that knocks, and one while a generation runs.
            raise_limit(2 * len(self._candidates.remote))
            gathering.open()
            try:
                code, why = self._run_generations()
                return code
            except (TfdistError, LauncherStopped) as error:
                code, why = error.exit_code, str(error)
                _change_phase(self._spec, JobPhase.FAILED)
                raise
            finally:
                gathering.end(code, why)

    def _run_generations(self) -> tuple[int, str]:
        """Returns the exit code, and why there is no further generation; empty where the job is done."""
        before, number = None, 1
        while True:
            members = self._gather(before)
            result = self._run_generation(number, members)
            rests = self._losses.note(members, result.failures, result.step)
            left = self._who_leaves(result, members)
            if left or self._is_to_grow(result):
                self._restarts = self._restarts.seen(result.step)
            else:
                verdict = self._judge(result, members)
                if isinstance(verdict, str):
                    self._steps.report(self._spec, replace(result, advice=verdict or result.advice))
                    return result.code, verdict if result.stop is None else result.stop.why
                self._restart(result, verdict)
            for rest in rests:
                self._steps.say(str(rest))
            self._signals.asked = None
            _change_phase(self._spec, JobPhase.RESTARTING)
            before, number = tuple(index for index in members if index not in left), number + 1

    def _run_generation(self, number: int, members: tuple[int, ...]) -> RunResult:
        generation = Generation(number, members, _free_port(self._candidates))
        self._members = len(members)
        if number > 1 or len(members) < self._candidates.num_workers:
            self._steps.say(self._beginning(generation))
        self._gathering.begin(generation)
        membership = generation.membership(self._candidates)
        spec = job_of_generation(self._spec, membership, is_first=not self._has_begun)
        result = self._run(generation, replace(spec, while_forming=self._gathering.check_members))
        lost = [failure.index for failure in result.failures if failure.kind == "lost" and failure.index]
        self._gathering.end_generation(members[index] for index in lost if index < len(members))
        if result.run_dir is not None:
            # What --resume and --overwrite say is done; and the directory may have been chosen just now.
            self._has_begun = True
            self._spec = replace(self._spec, run_dir=result.run_dir)
        return self._of_own_signal(result)

    def _of_own_signal(self, result: RunResult) -> RunResult:
        """The result, with the signal that came while the workers stopped for another reason."""
        received = self._signals.received
        if not received or result.stop is None:
            return result
        stop = Stop(128 + received[0], describe_signal(received[0]))
        return result if result.stop.code == stop.code else replace(result, code=stop.code, stop=stop)

    def _is_to_grow(self, result: RunResult) -> bool:
        """Returns whether the workers have stopped only to take in others."""
        stop, received = result.stop, self._signals.received
        return stop is not None and stop.why == self._signals.asked and not result.failures and not received

    def _who_leaves(self, result: RunResult, members: tuple[int, ...]) -> tuple[int, ...]:
        """The workers whose hosts leave the job, as SIGTERM has told them to, where the others can go on."""
        stop = result.stop
        if stop is None or stop.code != 128 + signal.SIGTERM or self._is_to_grow(result) or self._signals.received:
            return ()
        deadline = time.monotonic() + _LEAVING_SECONDS
        while not self._gathering.leaving() and time.monotonic() < deadline:
            self._gathering.step("the workers have stopped")
            wait_for([self._signals, *self._gathering.sources()], _TICK_SECONDS)
            self._signals.drain()
        leaving = self._gathering.leaving()
        left = tuple(index for each in leaving for index in each.hello.local)
        if not left or self._signals.received or len(set(members) - set(left)) < self._options.min_workers:
            return ()
        hosts = ", ".join(each.host for each in leaving)
        self._steps.say(f"{hosts} leaves the job ({stop.why}); all workers have stopped at a step, and others go on")
        self._gathering.drop(left)
        return left

    def _restart(self, result: RunResult, verdict: RestartAfter) -> None:
        _change_phase(self._spec, JobPhase.RESTARTING)
        self._steps.report(self._spec, result)
        count = f"restart {verdict.number} of {self._restarts.most}; progress resets the count"
        if not verdict.number:
            count = "the loss of a host that the job can do without counts as no restart"
        self._steps.say(f"all workers start again in {verdict.delay:g} s ({count})")
        self._wait(verdict.delay)

    def _judge(self, result: RunResult, members: tuple[int, ...]) -> RestartAfter | str:
        """Returns whether another generation follows, or why none does; empty where that needs no reason."""
        if result.stop is not None or not result.failures:
            return ""
        if self._restarts.most and go_on_without(members, result.failures, self._options.min_workers):
            self._restarts = self._restarts.seen(result.step)
            return RestartAfter(FIRST_DELAY_SECONDS, 0)
        judgement, self._restarts = self._restarts.judge(result.failures, result.step)
        return judgement if isinstance(judgement, RestartAfter) else judgement.why

    def _run(self, generation: Generation, spec: JobSpec) -> RunResult:
        """Runs one generation; launchers that do not find one another in it are as good as lost."""
        sizes = (("tensor", spec.tensor), ("context", spec.context))
        groups = "".join(f", once there are enough for groups of --{name} {size}" for name, size in sizes if size > 1)
        when = "from the next step on" if self._options.grow else "when the workers start the next time"
        text = (
            f"the job runs with {spec.membership.num_workers} of {self._candidates.num_workers} workers; this host "
            f"takes part {when}{groups}"
        )
        self._waiting_since = None
        with self._gathering.served(text, self._grow):
            try:
                return self._steps.run(spec, self._signals)
            except FormingError as error:
                if error.exit_code != FormingError.exit_code:
                    raise  # what another launcher was given, which it would be given again
                lost = lost_members(error, generation, spec.membership.cluster, self._gathering.members)
                return RunResult(error.exit_code, lost)

    def _grow(self) -> None:
        """Asks the workers to stop at a step, where a host waits to be taken in."""
        hosts = self._gathering.waiting_hosts() if self._options.grow else ()
        if len(self._that_fit(self._gathering.present())) <= self._members:
            hosts = ()
        if not hosts or self._signals.asked is not None:
            self._waiting_since = None if not hosts else self._waiting_since
            return
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= _GROW_SECONDS:
            self._steps.say(f"{', '.join(hosts)} {GROWS}")
            self._signals.ask(f"to take in {', '.join(hosts)} (--grow)")

    def _gather(self, before: tuple[int, ...] | None) -> tuple[int, ...]:
        """Waits until a generation can begin; returns its members. Raises `FormingError` where there are too few."""
        begun, enough_since, said = time.monotonic(), None, ""
        wanted = None if before is None else tuple(index for index in before if not self._losses.is_out([index]))
        while True:
            now, present = time.monotonic(), self._gathering.present()
            if len(present) < self._options.min_workers:
                # Rather with one that may be lost again than not at all.
                present = self._gathering.present(also_out=True)
            present = self._that_fit(present)
            is_enough = len(present) >= self._options.min_workers
            enough_since = (enough_since or now) if is_enough else None
            decision = self._policy.decide(present, wanted, now - begun, now - (enough_since or now))
            if isinstance(decision, Begin):
                return decision.members
            if isinstance(decision, TooFew):
                raise FormingError(self._too_few(decision, present))
            text = self._waiting_text(decision, present)
            self._gathering.step(text)
            if text != said and now - begun > 1:
                said = text
                self._steps.say(text)
            wait_for([self._signals, *self._gathering.sources()], _TICK_SECONDS)
            self._signals.check()

    def _that_fit(self, present: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the candidates that are there who can share what `--tensor`, `--context` or `--shard-over` cuts."""
        cluster = self._candidates.cluster
        assert cluster is not None, "an elastic job has a list"

        def fits(some: tuple[int, ...]) -> bool:
            try:
                self._spec.sharding([cluster.workers[index].host for index in some])
            except UsageError:
                return False
            return True

        return that_fit(present, self._gathering.launchers(), fits)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._gathering.step("the workers start again in a moment")
            wait_for([self._signals, *self._gathering.sources()], _TICK_SECONDS)
            self._signals.check()

    def _waiting_text(self, decision: Wait, present: tuple[int, ...]) -> str:
        return (
            f"{len(present)} of {self._candidates.num_workers} workers are here; waiting for "
            f"{self._named(decision.missing)}"
        )

    def _too_few(self, decision: TooFew, present: tuple[int, ...]) -> str:
        return (
            f"The job cannot go on: {len(present)} of {self._candidates.num_workers} workers are left, after waiting "
            f"for {decision.waited:.0f} s. Missing: {self._named(decision.missing)}. Expected "
            f"{self._options.min_workers} or more (--min-workers). Start the command on these hosts, and here with "
            "--resume auto."
        )

    def _beginning(self, generation: Generation) -> str:
        missing = sorted(set(range(self._candidates.num_workers)) - set(generation.members))
        without = f", without {self._named(missing)}" if missing else ""
        return f"{len(generation.members)} of {self._candidates.num_workers} workers start{without}"

    def _named(self, indices: tuple[int, ...] | list[int]) -> str:
        assert self._candidates.cluster is not None, "an elastic job has a list"
        if len(indices) > 4:
            return f"{len(indices)} workers: {format_ranges(list(indices))}"
        return ", ".join(str(self._candidates.cluster.workers[index]) for index in indices)


def _change_phase(spec: JobSpec, phase: JobPhase) -> None:
    """Says in the run directory, where there is one, that the job is in another phase between two generations."""
    if spec.run_dir is not None:
        run = RunDir(Path(spec.run_dir))
        with contextlib.suppress(RunDirError):
            BoundedDisk(run.path).call(lambda: change_phase(run, phase))


def _free_port(candidates: Membership) -> int:
    """A free port of the chief's host, beside its own in the list. Raises `PortTakenError` where there is none."""
    for port in chief_ports(candidates):
        with contextlib.suppress(PortTakenError), PortReservation() as reservation:
            reservation.take(port)
            return port
    ports = chief_ports(candidates)
    raise PortTakenError(
        f"The chief's worker needs a port beside the one in the list, which its launcher keeps. Expected a free one "
        f"from {ports[0] if ports else 'no port'} to {ports[-1] if ports else 'no port'}. End what has them, or choose "
        "another port for the first entry of --workers, the same on every host."
    )


def lost_members(
    error: FormingError, generation: Generation, cluster: Cluster | None, members: Sequence[Candidate]
) -> tuple[Failure, ...]:
    """The launchers that did not come; the chief's own stands for what is nobody's fault, as far as it knows.

    Args:
        error: Why the chief's launcher has given up.
        cluster: Its workers; None where there is one.
        members: Its launchers but the chief's, as they have knocked.
    """
    place = {index: rank for rank, index in enumerate(generation.members)}
    addresses = [] if cluster is None else [str(worker) for worker in cluster.workers]
    late = error.missing if isinstance(error, LateError) else {}
    found = []
    for member in members:
        workers = [place[index] for index in member.hello.local]
        absent = [worker for worker in workers if worker in late]
        address = addresses[workers[0]]
        if member.line.is_closed():
            found.append(lost_launcher(member.host, workers, address))
        elif absent:
            seen = f"it {describe_outcome(late[absent[0]])}, though its launcher has answered before"
            found.append(Failure(absent[0], member.host, time.time(), "lost", seen, address=address))
    return tuple(found) or (Failure(CHIEF, socket.gethostname(), time.time(), "lost", str(error)),)
