"""A follower in an elastic job, any launcher but the leader: it knocks at the leader's, and runs its generations."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError, TfdistError, WorkerFailedError
from tfdist.launch.elastic.gathering import BEAT_SECONDS
from tfdist.launch.elastic.generation import CHIEF, Generation, JobSteps, job_of_generation
from tfdist.launch.environment import read_token
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.job_terms import JobTerms
from tfdist.launch.peers.peer_links import keep_alive
from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.launch.rendezvous.missing_workers import describe_outcome
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connector import Connector
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.net.shared_token import Token

SILENT_SECONDS = 6 * BEAT_SECONDS
"""After which the chief's launcher, of which those that wait hear all the time, counts as gone."""

AFTER_SECONDS = 120.0
"""The same after a generation: until the workers on the chief's host have left, its launcher beats for others alone."""

WITHOUT_CHIEF = "Without the chief no worker goes on"
"""The beginning of the error of a launcher that has lost the chief's."""

_TICK_SECONDS = 0.2


@dataclass(frozen=True)
class End:
    """The job is over.

    Attributes:
        code: What this launcher exits with.
        why: Why, in words; empty where it ended by itself.
    """

    code: int
    why: str


class Knock:
    """The line to the chief's launcher, over all generations.

    Args:
        membership: The candidates, and which are started here.
        check: Called with the terms of the chief's launcher: raises why this one cannot take part.
    """

    def __init__(
        self,
        membership: Membership,
        token: Token | None,
        check: Callable[[Mapping[str, Any]], None],
        signals: Signals,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert membership.cluster is not None, "an elastic job has a list"
        self._chief = membership.cluster.workers[CHIEF]
        self._hello = Hello.own(membership.cluster, membership.local)
        introduction = Introduction(self._hello, token)
        self._connector = Connector(CHIEF, self._chief, introduction, link=True, clock=clock)
        self._check = check
        self._signals = signals
        self._say = say
        self._clock = clock
        self._heard: deque[Message] = deque()
        self._said = ""
        self._has_taken_part = False

    def meet(self, timeout: float) -> None:
        """Reaches the chief's launcher.

        Raises:
            FormingError: It cannot be reached, or has another list, version or token.
            LauncherStopped: A signal came.
        """
        deadline = self._clock() + timeout
        connector = self._connector
        while connector.met is None:
            if connector.mismatch is not None:
                raise FormingError(f"The launchers of this job do not agree: {connector.mismatch}")
            if self._clock() > deadline:
                raise FormingError(
                    f"The chief's launcher was not reached within {timeout:g} s (--start-timeout).\n"
                    f"  worker {CHIEF} ({self._chief}) {describe_outcome(connector.seen)}\n"
                    "Expected: the same `tfdist train --workers ...` started on the chief's host within that time, and "
                    "its port reachable from this host. Start this one again."
                )
            connector.step()
            self._pause(*connector.waiting_for())
        problem = disagreement(self._hello, connector.met, CHIEF)
        if problem is not None:
            raise FormingError(f"The launchers of this job do not agree: {problem}")
        assert connector.line is not None, "the connector keeps the line"
        keep_alive(connector.line.connection)

    def next_generation(self) -> Generation | End:
        """Waits until the chief's launcher begins a generation with this one, or ends the job.

        It may be a long time: a host that comes late waits until the generation ends that runs. The chief's launcher is
        heard of all the time, or is given up.

        Raises:
            LineError: It begins one that is none.
            WorkerFailedError: The chief's launcher is gone.
            LauncherStopped: A signal came.
            TfdistError: What `check` raises.
        """
        line = self._connector.line
        assert line is not None, "meet() comes first"
        heard, patience = self._clock(), AFTER_SECONDS if self._has_taken_part else SILENT_SECONDS
        while True:
            if self._receive(line):
                heard, patience = self._clock(), SILENT_SECONDS
            while self._heard:
                # What follows the beginning of a generation is for later.
                found = self._take_in(line, self._heard.popleft())
                if found is not None:
                    return found
            if line.is_closed() or self._clock() - heard > patience:
                raise self._lost()
            self._pause([line], [])

    def leave(self) -> None:
        """Tells the chief's launcher that this host leaves the job, which may go on without it."""
        if self._connector.line is not None:
            self._connector.line.send({"leaving": True})

    def close(self) -> None:
        """Hangs up."""
        self._connector.close()

    def _receive(self, line: LineSocket) -> bool:
        """Hears what has come; returns whether anything has."""
        line.flush()
        try:
            messages = line.receive()
        except LineError:
            line.close()
            return False
        self._heard += messages
        return bool(messages)

    def _take_in(self, line: LineSocket, message: Message) -> Generation | End | None:
        match message:
            case {"terms": dict(terms)}:
                self._agree(line, terms)
            case {"wait": {"text": str(text)}} if text != self._said:
                self._said = text
                self._say(text)
            case {"begin": content}:
                self._has_taken_part, self._said = True, ""
                return Generation.from_message(content)
            case {"end": {"code": int(code), "why": str(why)}} if 0 <= code < 256:
                return End(code, why)
        return None

    def _agree(self, line: LineSocket, terms: Mapping[str, Any]) -> None:
        try:
            self._check(terms)
        except TfdistError as error:
            line.send({"refusal": {"text": str(error), "code": error.exit_code}})
            raise
        line.send({"ready": True})

    def _lost(self) -> WorkerFailedError:
        text = f"the chief's launcher, at {self._chief}, is gone: it was killed, or its machine or the network failed"
        # Also where this one has only waited so far: what starts a job again goes by one code for all of its hosts.
        return WorkerFailedError(
            f"{WITHOUT_CHIEF}: {text}. The same command, on the chief's host and here, resumes the "
            "run."
        )

    def _pause(self, readable: list[Any], writable: list[Any]) -> None:
        wait_for([*readable, self._signals], _TICK_SECONDS, writable)
        self._signals.check()


class ElasticFollower:
    """A launcher that is not the chief's."""

    def __init__(self, spec: JobSpec, steps: JobSteps, signals: Signals) -> None:
        self._spec = spec
        self._steps = steps
        self._signals = signals

    def run(self) -> int:
        spec, last, is_first = self._spec, RunResult(0), True
        with self._knock() as knock:
            knock.meet(spec.start_timeout)
            while True:
                try:
                    said = knock.next_generation()
                    if isinstance(said, End):
                        return self._end(said, last)
                    membership = said.membership(spec.membership)
                except LineError as error:
                    raise FormingError(
                        f"The chief's launcher said something that is not understood: {error}. Install the same "
                        "version of tfdist on every host."
                    ) from None
                except WorkerFailedError:
                    self._steps.report(spec, last)
                    raise
                except LauncherStopped:
                    if last.stop is None:
                        raise
                    # The signal has stopped the workers of all hosts.
                    self._steps.report(spec, last)
                    return last.stop.code
                last = self._run(job_of_generation(spec, membership, is_first=is_first))
                is_first = is_first and last.run_dir is None
                if last.stop is not None and signal.SIGTERM in self._signals.received:
                    knock.leave()

    @contextlib.contextmanager
    def _knock(self) -> Iterator[Knock]:
        terms = JobTerms(self._spec)
        token = read_token(self._spec.environ)
        knock = Knock(self._spec.membership, token, terms.accept, self._signals, self._steps.say)
        with contextlib.closing(knock):
            yield knock

    def _run(self, spec: JobSpec) -> RunResult:
        """Runs one generation. What becomes of the job after it, the chief's launcher says."""
        try:
            return self._steps.run(spec, self._signals)
        except FormingError as error:
            self._steps.say(f"the workers have not started: {error}")
            return RunResult(error.exit_code)

    def _end(self, said: End, last: RunResult) -> int:
        self._steps.report(self._spec, last)
        if said.code and not last.failures and last.stop is None:
            self._steps.say(f"the job has ended with exit code {said.code}: {said.why or 'its scripts chose it'}")
        return said.code
