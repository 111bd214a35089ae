"""How the launchers of one job find one another before any worker starts.

Every launcher listens on its workers' ports and dials all others'; both sides say hello, and what does not fit ends
the forming at once. The line from each launcher to the chief's stays: over it a launcher says whom it still misses,
the chief's launcher says go when nobody misses anybody, and the two go on talking until the job's end (star.py).
With a token (token.py) only launchers that prove to have it take part. Then nobody listens any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.membership import Membership
from tfdist.cluster.spec import Cluster
from tfdist.errors import FormingError, PortTakenError, TfdistError
from tfdist.launch.absence import Waiting, explain_absence
from tfdist.launch.answering import Answering, Caller
from tfdist.launch.dialing import Dial
from tfdist.launch.hello import Hello, disagreement
from tfdist.launch.lines import LineError, Message
from tfdist.launch.progress import Progress, print_progress, waiting_text
from tfdist.launch.sighting import Sighting
from tfdist.launch.signals import Signals, Stopped
from tfdist.launch.star import Link, Linked, keep_alive
from tfdist.launch.token import Token
from tfdist.launch.waiting import wait_for

CHIEF = 0
LINGER_SECONDS = 1.0
"""How long a launcher that found a disagreement stays, so that the others meet it and learn of it too."""
_TICK_SECONDS = 0.05


@dataclass(frozen=True)
class Formed:
    """A cluster that has formed.

    Attributes:
        go: What the chief's launcher handed out.
        control: The lines between the launchers.
    """

    go: dict[str, Any]
    control: Linked


def form(
    membership: Membership,
    cluster: Cluster,
    make_go: Callable[[], dict[str, Any]],
    timeout: float,
    signals: Signals,
    clock: Callable[[], float] = time.monotonic,
    token: Token | None = None,
    say: Callable[[str], None] = print_progress,
) -> Formed:
    """Meets the other launchers of a job.

    Args:
        membership: Which workers are started here. Their ports are held.
        cluster: All workers.
        make_go: Called once all have met, by the chief's launcher alone: what it hands out.
        timeout: Seconds for all of it.
        signals: A signal ends the forming.
        clock: Seconds, never going back.
        token: The job's secret: only launchers that have it take part. None where the network is trusted.
        say: Tells the user who is here and whom the launcher waits for.

    Raises:
        FormingError: The others did not come in time, or do not agree; or another launcher gave up, and then with its
            text and its exit code.
        Stopped: A signal came.
        Exception: What `make_go` raises; the others are told.
    """
    forming = _Forming(membership, cluster, make_go, timeout, signals, clock, token, Progress(say, clock))
    try:
        return forming.run()
    except Exception as error:
        # Whatever it is, the others need not wait until their time is up.
        forming.abort(error)
        raise
    finally:
        forming.close()


class _Forming:
    def __init__(
        self,
        membership: Membership,
        cluster: Cluster,
        make_go: Callable[[], dict[str, Any]],
        timeout: float,
        signals: Signals,
        clock: Callable[[], float],
        token: Token | None,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._leads = membership.has_chief
        self._remote = membership.remote
        self._make_go = make_go
        self._timeout = timeout
        self._signals = signals
        self._clock = clock
        self._progress = progress
        self._hello = Hello.own(cluster, membership.local)
        ports = {index: cluster.workers[index].port for index in membership.local}
        self._answering = Answering(ports, self._hello, clock, token, keeps=self._leads)
        self._dials = {
            index: Dial(index, cluster.workers[index], self._hello, link=index == CHIEF, clock=clock, token=token)
            for index in membership.remote
        }
        self._came: dict[int, Hello] = {}
        self._told: dict[int, str] | None = None
        self._formed = False

    def run(self) -> Formed:
        deadline = self._clock() + self._timeout
        self._listen()
        while True:
            self._answering.step()
            for dial in self._dials.values():
                dial.step()
            problem = self._disagreement()
            if problem is not None:
                self._linger()
                raise FormingError(f"The launchers of this job do not agree: {problem}")
            formed = self._lead() if self._leads else self._follow()
            if formed is not None:
                self._formed = True
                self._progress.all_here(len(self._cluster))
                return formed
            if self._clock() > deadline:
                raise FormingError(self._absence())
            self._progress.show(self._waiting_text())
            self._wait()

    def abort(self, error: Exception) -> None:
        """Tells whoever is on the line why this launcher gives up."""
        code, text = FormingError.exit_code, f"A launcher failed: {type(error).__name__}: {error}"
        if isinstance(error, TfdistError | Stopped):
            code, text = error.exit_code, str(error)
        message = {"abort": {"code": code, "text": text, "host": self._hello.host}}
        lines = [caller.line for caller in self._answering.callers]
        for line in [*lines, *(dial.understood for dial in self._dials.values())]:
            if line is not None:
                line.send(message)

    def close(self) -> None:
        """Stops listening and dialling; once formed, the lines between the launchers stay."""
        self._answering.close_listeners()
        for index, dial in self._dials.items():
            if not (self._formed and index == CHIEF):
                dial.close()
        if not self._formed:
            self._answering.close()

    def _listen(self) -> None:
        try:
            self._answering.open()
        except OSError as error:
            raise PortTakenError(
                f"This launcher cannot listen on its workers' ports {sorted(self._answering.ports.values())}: {error}. "
                "Choose other ports in --workers (the same list on every host)."
            ) from error

    def _wait(self) -> None:
        readable: list[Any] = [*self._answering.sources(), self._signals]
        writable: list[Any] = []
        for dial in self._dials.values():
            reading, writing = dial.waiting_for()
            readable += reading
            writable += writing
        wait_for(readable, _TICK_SECONDS, writable)
        self._signals.check()

    def _linger(self) -> None:
        deadline = self._clock() + LINGER_SECONDS
        while self._clock() < deadline:
            self._answering.step()
            for dial in self._dials.values():
                dial.step()
            self._wait()

    def _disagreement(self) -> str | None:
        mismatches = [self._answering.problem, *(dial.mismatch for dial in self._dials.values())]
        mismatch = next((mismatch for mismatch in mismatches if mismatch is not None), None)
        if mismatch is not None:
            return mismatch
        for hello in self._answering.hellos:
            problem = disagreement(self._hello, hello) or self._started_twice(hello)
            if problem is not None:
                return problem
            self._came.update(dict.fromkeys(hello.local, hello))
        self._answering.hellos.clear()
        for dial in self._dials.values():
            if dial.met is not None:
                problem = disagreement(self._hello, dial.met, dial.index)
                if problem is not None:
                    return problem
        return None

    def _started_twice(self, hello: Hello) -> str | None:
        for caller in self._answering.callers:
            twice = sorted(set(caller.hello.local) & set(hello.local))
            if caller.hello.launcher != hello.launcher and twice and caller.listen():
                return (
                    f"worker(s) {', '.join(map(str, twice))} are started twice: by the launchers on "
                    f"{caller.hello.host} and on {hello.host}. Give each launcher its own --index"
                )
        return None

    def _lead(self) -> Formed | None:
        callers = self._answering.callers
        # Each is heard before it is dropped: its last word may be why it leaves.
        present = [caller for caller in callers if caller.listen()]
        for caller in callers:
            if caller.abort is not None:
                raise _given_up(caller.abort)
        for caller in callers:
            if caller not in present:
                self._forget(caller)
        callers[:] = present
        linked = sorted(index for caller in callers for index in caller.hello.local)
        ready = all(caller.missing == {} for caller in callers) and not self._missing()
        if linked != list(self._remote) or not ready:
            return None
        go = self._make_go()
        for caller in callers:
            caller.line.send({"go": go})
        return self._formed_with(go, [self._link(caller.hello, caller) for caller in callers])

    def _forget(self, caller: Caller) -> None:
        for index in caller.hello.local:
            self._came.pop(index, None)
            self._dials[index].lose()

    def _follow(self) -> Formed | None:
        chief = self._dials[CHIEF]
        if chief.met is None or chief.line is None:
            self._told = None
            return None
        missing = {index: seen.text for index, seen in self._missing().items()}
        if missing != self._told:
            chief.line.send({"missing": missing})
            self._told = missing
        try:
            messages = chief.line.receive(1)
        except LineError:
            messages = []
            chief.line.close()
        if messages and isinstance(messages[0].get("abort"), dict):
            raise _given_up(messages[0]["abort"])
        if messages and isinstance(messages[0].get("go"), dict):
            return self._formed_with(messages[0]["go"], [self._link(chief.met, chief)])
        if chief.line.is_closed():
            chief.lose()
        return None

    def _waiting_text(self) -> str:
        others = [
            (caller.hello.host, index)
            for caller in self._answering.callers
            for index in sorted(set(caller.missing or ()) & set(self._remote))
        ]
        return waiting_text(self._cluster, self._missing(), others)

    def _missing(self) -> dict[int, Sighting]:
        return {index: dial.seen for index, dial in self._dials.items() if dial.met is None}

    def _link(self, hello: Hello, end: Caller | Dial) -> Link:
        assert end.line is not None
        addresses = tuple(str(self._cluster.workers[index]) for index in hello.local)
        keep_alive(end.line.connection)
        return Link(end.line, hello.host, hello.local, addresses)

    def _formed_with(self, go: dict[str, Any], links: Sequence[Link]) -> Formed:
        return Formed(go, Linked(links, leads=self._leads, remote=self._remote))

    def _absence(self) -> str:
        callers = [
            Waiting(caller.hello.host, caller.hello.local, caller.missing or {}) for caller in self._answering.callers
        ]
        return explain_absence(
            self._cluster,
            {index: seen.text for index, seen in self._missing().items()},
            came={index: hello.host for index, hello in self._came.items()},
            callers=callers if self._leads else None,
            remote=self._remote,
            refused=self._answering.refused,
            timeout=self._timeout,
        )


def _given_up(abort: Message) -> FormingError:
    error = FormingError(f"{abort.get('text')}\n(Received from the launcher on {abort.get('host')}.)")
    code = abort.get("code")
    if type(code) is int and 0 < code < 256:
        error.exit_code = code
    return error
