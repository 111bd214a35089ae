"""The launchers of one cluster, each in a thread of this process."""

from __future__ import annotations

import collections
import contextlib
import json
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.helpers.waiting import until
from tfdist.cluster import Cluster, Membership, discover
from tfdist.launch.rendezvous.cluster_formation import form
from tfdist.launch.rendezvous.join_barrier import FormedCluster
from tfdist.launch.signals import Signals
from tfdist.net.bounded_wait import wait_for
from tfdist.net.hello import Hello
from tfdist.net.port_reservation import PortReservation, reserve_ports
from tfdist.net.shared_token import Token

GO = {"run_dir": "runs/x", "seed": 7}
TWO_OF_THREE = "2 of 3 workers are here; waiting for "


def no_go() -> dict[str, Any]:
    raise AssertionError("only the chief's launcher makes the go")


class Launchers:
    """The launchers of one cluster on this machine, and their ports.

    Attributes:
        ahead: Seconds by which their clock is ahead of the system's.
        said: What each has told its user, by its first worker.
    """

    def __init__(self, size: int, stack: contextlib.ExitStack) -> None:
        hold = stack.enter_context(PortReservation())
        held = reserve_ports(discover(None, None, size, {}), hold)
        assert held.cluster is not None
        self.cluster = held.cluster
        self.stack = stack
        self.pool = stack.enter_context(ThreadPoolExecutor(size + 1))
        self.signals: list[Signals] = []
        self.ahead = 0.0
        self.said: dict[int, list[str]] = collections.defaultdict(list)
        self.clock: Callable[[], float] = lambda: time.monotonic() + self.ahead

    def start(
        self,
        *local: int,
        cluster: Cluster | None = None,
        timeout: float = 20,
        make_go: Callable[[], dict[str, Any]] = lambda: GO,
        token: str | None = None,
        watch: Callable[[], None] = lambda: None,
    ) -> Future[FormedCluster]:
        cluster = cluster or self.cluster
        membership = Membership(cluster, local)
        signals = self.stack.enter_context(Signals())
        self.signals.append(signals)
        secret = None if token is None else Token(token)
        arguments = (membership, cluster, make_go if 0 in local else no_go, timeout, signals, self.clock, secret)
        return self.pool.submit(form, *arguments, self.said[local[0]].append, watch=watch)

    def pass_until(self, condition: Callable[[], Any]) -> None:
        """Lets their time pass faster than the system's until the condition holds; introductions still end in time."""

        def passed() -> Any:
            self.ahead += 0.1
            return condition()

        until(passed)

    def pass_until_said(self, text: str, *indices: int) -> None:
        """Lets their time pass until each of these launchers has told its user this."""
        self.pass_until(lambda: all(any(text in line for line in self.said[index]) for index in indices))

    def hello(self, *local: int) -> bytes:
        """What the launcher of these workers would say."""
        return json.dumps(Hello.own(self.cluster, local).to_message(link=True)).encode() + b"\n"

    def call(self, index: int) -> socket.socket:
        """A connection to the launcher of a worker, as soon as it listens."""
        address = self.cluster.workers[index]

        def connected() -> socket.socket | None:
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection((address.host, address.port), timeout=10)
            return None

        return until(connected)

    def form(self, *locals_: Sequence[int], token: str | None = None) -> list[FormedCluster]:
        formed = [future.result(20) for future in [self.start(*local, token=token) for local in locals_]]
        for each in formed:
            self.stack.callback(each.links.close)
        return formed


def wait_for_events(formed: FormedCluster) -> list[Any]:
    deadline = time.monotonic() + 60
    while not (events := formed.links.events()):
        assert time.monotonic() < deadline
        wait_for(formed.links.sockets(), 1)
    return events
