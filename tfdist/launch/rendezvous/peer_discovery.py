"""Who of a job's launchers is here while the cluster forms: every one listens for the others and dials them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import PortTakenError
from tfdist.launch.rendezvous.missing_workers import Waiting, explain_absence
from tfdist.launch.rendezvous.progress import waiting_text
from tfdist.net.connector import Dial
from tfdist.net.hello import Hello, disagreement
from tfdist.net.line_socket import LineSocket
from tfdist.net.listener import Answering, Caller
from tfdist.net.shared_token import Token
from tfdist.net.sighting import Sighting

CHIEF = 0


class RollCall:
    """Meets the other launchers of a job, each at the addresses of its workers.

    Args:
        membership: Which workers are started here. Their ports are held.
        cluster: All workers.
        clock: Seconds, never going back.
        token: The job's secret: only launchers that have it are met. None where the network is trusted.

    Attributes:
        cluster: All workers.
        leads: Whether the chief is started here.
        remote: Workers that other launchers start.
        hello: This launcher's.
        dials: The attempts to meet the launcher of each of those.
    """

    def __init__(
        self, membership: Membership, cluster: Cluster, clock: Callable[[], float], token: Token | None
    ) -> None:
        self.cluster = cluster
        self.leads = membership.has_chief
        self.remote = membership.remote
        self.hello = Hello.own(cluster, membership.local)
        ports = {index: cluster.workers[index].port for index in membership.local}
        self._answering = Answering(ports, self.hello, clock, token, keeps=self.leads)
        self.dials = {
            index: Dial(index, cluster.workers[index], self.hello, link=index == CHIEF, clock=clock, token=token)
            for index in membership.remote
        }
        self._came: dict[int, Hello] = {}

    @property
    def callers(self) -> list[Caller]:
        """The launchers that are on the line to this one, which is the chief's."""
        return self._answering.callers

    def open(self) -> None:
        """Starts to listen.

        Raises:
            PortTakenError: It cannot.
        """
        try:
            self._answering.open()
        except OSError as error:
            raise PortTakenError(
                f"This launcher cannot listen on its workers' ports {sorted(self._answering.ports.values())}: {error}. "
                "Choose other ports in --workers (the same list on every host)."
            ) from error

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """What must become readable, and what writable, before `step` gets on."""
        readable: list[Any] = self._answering.sources()
        writable: list[Any] = []
        for dial in self.dials.values():
            reading, writing = dial.waiting_for()
            readable += reading
            writable += writing
        return readable, writable

    def step(self) -> None:
        """Answers and dials, without waiting."""
        self._answering.step()
        for dial in self.dials.values():
            dial.step()

    def problem(self) -> str | None:
        """Why the launchers that were met cannot run one job; None while they can."""
        mismatches = [self._answering.problem, *(dial.mismatch for dial in self.dials.values())]
        mismatch = next((mismatch for mismatch in mismatches if mismatch is not None), None)
        if mismatch is not None:
            return mismatch
        for hello in self._answering.hellos:
            problem = disagreement(self.hello, hello) or self._started_twice(hello)
            if problem is not None:
                return problem
            self._came.update(dict.fromkeys(hello.local, hello))
        self._answering.hellos.clear()
        for dial in self.dials.values():
            if dial.met is not None:
                problem = disagreement(self.hello, dial.met, dial.index)
                if problem is not None:
                    return problem
        return None

    def forget(self, caller: Caller) -> None:
        """A launcher has left: its workers are missed again."""
        for index in caller.hello.local:
            self._came.pop(index, None)
            self.dials[index].lose()

    def missing(self) -> dict[int, Sighting]:
        """Workers whose launchers have not been met, with what was seen of them."""
        return {index: dial.seen for index, dial in self.dials.items() if dial.met is None}

    def waiting_text(self) -> str:
        """Who is here, and whom the launchers wait for."""
        others = [
            (caller.hello.host, index)
            for caller in self.callers
            for index in sorted(set(caller.missing or ()) & set(self.remote))
        ]
        return waiting_text(self.cluster, self.missing(), others)

    def absence(self, timeout: float) -> str:
        """What is said when not all have come in `timeout` seconds."""
        callers = [Waiting(caller.hello.host, caller.hello.local, caller.missing or {}) for caller in self.callers]
        return explain_absence(
            self.cluster,
            {index: seen.text for index, seen in self.missing().items()},
            came={index: hello.host for index, hello in self._came.items()},
            callers=callers if self.leads else None,
            remote=self.remote,
            refused=self._answering.refused,
            timeout=timeout,
        )

    def lines(self) -> list[LineSocket]:
        """The lines to all who can be told something now."""
        dialled = (dial.understood for dial in self.dials.values())
        return [line for line in itertools.chain((caller.line for caller in self.callers), dialled) if line is not None]

    def close(self, *, formed: bool) -> None:
        """Stops listening and dialling; once the cluster has formed, the lines between the launchers stay."""
        self._answering.close_listeners()
        for index, dial in self.dials.items():
            if not (formed and index == CHIEF):
                dial.close()
        if not formed:
            self._answering.close()

    def _started_twice(self, hello: Hello) -> str | None:
        for caller in self.callers:
            twice = sorted(set(caller.hello.local) & set(hello.local))
            if caller.hello.launcher != hello.launcher and twice and caller.listen():
                return (
                    f"worker(s) {', '.join(map(str, twice))} are started twice: by the launchers on "
                    f"{caller.hello.host} and on {hello.host}. Give each launcher its own --index"
                )
        return None
