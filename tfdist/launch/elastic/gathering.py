"""Gathering: the chief's launcher keeps its port open, and knows which candidates' launchers are there."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.membership import Membership
from tfdist.launch.elastic.generation import CHIEF, Generation, MemberGoneError
from tfdist.launch.peers.peer_links import keep_alive
from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.net.bounded_wait import wait_for
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.hello_listener import Caller, HelloListener
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.net.shared_token import Token

BEAT_SECONDS = 5.0
"""The interval, in seconds, at which those that wait hear that the chief's launcher is there."""
_TICK_SECONDS = 0.2
_THREAD_SECONDS = 10.0
_OUT = (
    "this host was lost again and again without a step in between: it stays out for some time, which the chief's "
    "launcher says, and is taken in after that"
)


@dataclass(eq=False)
class Candidate:
    """A launcher that has knocked.

    Attributes:
        hello: Who it is.
        line: The line to it.
        is_ready: Whether it has agreed with the chief's launcher.
        is_member: Whether it takes part in the generation that runs.
        is_leaving: Whether its host leaves the job.
    """

    hello: Hello
    line: LineSocket
    is_ready: bool = False
    is_member: bool = False
    is_leaving: bool = False

    @property
    def host(self) -> str:
        return self.hello.host


class Gathering:
    """The lines between the chief's launcher and those of the other candidates, over all generations.

    Between two generations the caller steps it; while one runs, a thread does.

    Args:
        membership: The candidates, and which are started here. Their ports are held.
        is_out: Whether a host with one of these candidates stays out of the job for now.

    Attributes:
        members: The launchers of the last generation but this one, whatever has become of their lines.
    """

    def __init__(
        self,
        membership: Membership,
        terms: Mapping[str, Any],
        token: Token | None,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        is_out: Callable[[Collection[int]], bool] = lambda candidates: False,
    ) -> None:
        assert membership.cluster is not None, "an elastic job has a list"
        self._membership = membership
        self._hello = Hello.own(membership.cluster, membership.local)
        self._terms = dict(terms)
        self._say = say
        self._clock = clock
        self._is_out = is_out
        port = membership.cluster.workers[CHIEF].port
        self._listener = HelloListener([port], Introduction(self._hello, token), clock)
        self._candidates: list[Candidate] = []
        self._rivals: list[Candidate] = []
        self.members: tuple[Candidate, ...] = ()
        self._next_beat = 0.0

    def open(self) -> None:
        """Opens the port.

        Raises:
            PortTakenError: It cannot be used.
        """
        self._listener.open()

    def sources(self) -> list[Any]:
        """Returns what becomes readable when there is something to do."""
        lines = [each.line for each in (*self._candidates, *self._rivals)]
        return [*self._listener.sources(), *(line for line in lines if not line.is_closed())]

    def step(self, text: str) -> None:
        """Lets in who knocks, and hears who is there, without waiting.

        Args:
            text: What those are told that wait.
        """
        callers = self._listener.step()
        # First: whoever calls may take the place of one that is gone.
        for candidate in self._candidates:
            self._hear(candidate)
        self._candidates = [each for each in self._candidates if not each.line.is_closed()]
        for caller in callers:
            self._let_in(caller)
        for rival in [each for each in self._rivals if not self._is_taken(each)]:
            self._rivals.remove(rival)
            if not rival.line.is_closed():
                self.add(rival)
        if self._clock() >= self._next_beat:
            self._next_beat = self._clock() + BEAT_SECONDS
            self._tell({"wait": {"text": text}}, lambda each: not each.is_member and not self._stays_out(each))
            self._tell({"wait": {"text": _OUT}}, lambda each: not each.is_member and self._stays_out(each))
            for rival in self._rivals:
                rival.line.send({"wait": {"text": self._taken_text(rival)}})

    def present(self, *, also_out: bool = False) -> tuple[int, ...]:
        """The candidates that can take part, this launcher's own among them, ascending.

        Args:
            also_out: Whether those count that stay out for now.
        """
        ready = [each for each in self._candidates if each.is_ready and not each.is_leaving]
        ready = [each for each in ready if also_out or not self._stays_out(each)]
        others = [index for each in ready for index in each.hello.local]
        return tuple(sorted({*self._membership.local, *others}))

    def launchers(self) -> list[tuple[int, ...]]:
        """The candidates of each launcher that is there, this one first."""
        return [tuple(self._membership.local), *(tuple(each.hello.local) for each in self._candidates)]

    def waiting_hosts(self) -> tuple[str, ...]:
        """The hosts that could take part, and do not in the generation that runs."""
        waiting = [each for each in self._candidates if each.is_ready and not each.is_member]
        return tuple(each.host for each in waiting if not self._stays_out(each))

    def add(self, candidate: Candidate) -> None:
        """Lets in a launcher that fits into the job, and asks whether it can take part."""
        self._candidates.append(candidate)
        candidate.line.send({"terms": self._terms})

    def check_members(self) -> None:
        """Raises `MemberGoneError` where the launcher of a member has hung up."""
        gone = [each.host for each in self.members if each.line.is_closed()]
        if gone:
            raise MemberGoneError(f"{', '.join(gone)} has gone while the launchers met. The job goes on if it can.")

    def leaving(self) -> tuple[Candidate, ...]:
        """The launchers that leave the job."""
        return tuple(each for each in self._candidates if each.is_leaving)

    def begin(self, generation: Generation) -> None:
        """Tells the members that a generation begins."""
        for candidate in self._candidates:
            candidate.is_member = candidate.is_ready and set(candidate.hello.local) <= set(generation.members)
        self.members = tuple(each for each in self._candidates if each.is_member)
        self._tell({"begin": generation.to_message()}, lambda each: each.is_member)

    def end_generation(self, lost: Iterable[int] = ()) -> None:
        """The generation that ran is over: whoever is still there may take part in the next.

        Args:
            lost: The candidates whose launchers are lost. Their lines may seem to be whole for some seconds yet; where
                one has broken, another launcher may have come in its place meanwhile, and that is not lost.
        """
        self._hang_up([each for each in self._candidates if each.is_member], lost)
        for candidate in self._candidates:
            candidate.is_member = False
        self._next_beat = 0.0

    def drop(self, indices: Iterable[int]) -> None:
        """Hangs up on the launchers of these candidates."""
        self._hang_up(self._candidates, indices)

    @contextlib.contextmanager
    def served(self, text: str, stepped: Callable[[], None]) -> Iterator[None]:
        """A thread steps it until the context ends.

        Args:
            text: What those are told that wait.
            stepped: Called in the thread after each step.
        """
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                self.step(text)
                stepped()
                wait_for(self.sources(), _TICK_SECONDS)

        thread = threading.Thread(target=serve, name="tfdist-gathering", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(_THREAD_SECONDS)

    def end(self, code: int, why: str) -> None:
        """Tells all that the job is over, with its exit code and why in words."""
        self._candidates += self._rivals
        self._rivals.clear()
        self._tell({"end": {"code": code, "why": why}}, lambda each: True)

    def close(self) -> None:
        """Closes the port and hangs up."""
        self._listener.close()
        for candidate in (*self._candidates, *self._rivals):
            candidate.line.flush()
            candidate.line.close()

    def _stays_out(self, candidate: Candidate) -> bool:
        return self._is_out(candidate.hello.local)

    def _tell(self, message: Message, whom: Callable[[Candidate], bool]) -> None:
        for candidate in filter(whom, self._candidates):
            candidate.line.send(message)

    def _hang_up(self, candidates: Iterable[Candidate], indices: Iterable[int]) -> None:
        chosen = set(indices)
        for candidate in candidates:
            if chosen & set(candidate.hello.local):
                candidate.line.close()

    def _let_in(self, caller: Caller[Hello]) -> None:
        if caller.line is None:
            return
        problem = disagreement(self._hello, caller.hello)
        if problem is not None:
            text = f"The launchers of this job do not agree: {problem}"
            self._say(f"{caller.hello.host} cannot take part: {problem}")
            caller.line.send({"end": {"code": 3, "why": text}})
            caller.line.flush()
            caller.line.close()
            return
        # One that calls again has lost its first line.
        for earlier in [each for each in self._candidates if each.hello.sender == caller.hello.sender]:
            earlier.line.close()
            self._candidates.remove(earlier)
        keep_alive(caller.line.connection)
        candidate = Candidate(caller.hello, caller.line)
        if self._is_taken(candidate):
            # A host that lost its power and is back seems to be there twice, until its old line is known to be dead.
            self._rivals.append(candidate)
            candidate.line.send({"wait": {"text": self._taken_text(candidate)}})
        else:
            self.add(candidate)

    def _is_taken(self, candidate: Candidate) -> bool:
        """Returns whether another launcher, which seems to be there, starts a worker of this one."""
        return self._holder(candidate) is not None

    def _holder(self, candidate: Candidate) -> Candidate | None:
        own = set(candidate.hello.local)
        return next((each for each in self._candidates if own & set(each.hello.local)), None)

    def _taken_text(self, candidate: Candidate) -> str:
        holder = self._holder(candidate)
        host = "another host" if holder is None else holder.host
        shown = ", ".join(map(str, candidate.hello.local))
        return f"worker(s) {shown} are started by the launcher on {host}; this one takes its place when that is gone"

    def _hear(self, candidate: Candidate) -> None:
        candidate.line.flush()
        try:
            for message in candidate.line.receive():
                if message.get("ready") is True:
                    candidate.is_ready = True
                elif message.get("leaving") is True:
                    candidate.is_leaving = True
                elif isinstance(refusal := message.get("refusal"), dict):
                    self._say(f"{candidate.host} cannot take part: {str(refusal.get('text'))[:500]}")
                    candidate.line.close()
        except LineError:
            # A launcher that cannot be understood any more is as good as gone.
            candidate.line.close()
