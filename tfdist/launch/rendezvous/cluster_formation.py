"""Forms the cluster: the launchers of one job find one another before any worker starts.

Every launcher listens on its workers' ports. The chief's dials all others', each of those the chief's and a few next
to it (`followers`); both sides introduce themselves, and what does not fit ends the forming at once. The line from each
launcher to the chief's stays: over it the chief's launcher says what all have to agree with and who is here, the other
whether it agrees and whom it still misses, the chief's launcher says go when none misses another, and the two keep
talking until the job's end (`launch.peers`). With a token (`net.shared_token`) only launchers that prove to have it
take part. Once the cluster has formed nobody listens any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError
from tfdist.launch.rendezvous.followers import raise_limit
from tfdist.launch.rendezvous.join_barrier import FollowerBarrier, FormedCluster, LateError, LeaderBarrier, abort
from tfdist.launch.rendezvous.missing_workers import Progress, print_progress
from tfdist.launch.rendezvous.peer_discovery import PeerDiscovery
from tfdist.launch.signals import Signals
from tfdist.net.bounded_wait import wait_for
from tfdist.net.line_socket import encode
from tfdist.net.shared_token import Token

LINGER_SECONDS = 1.0
"""Seconds that a launcher that found a disagreement stays, so that the others meet it and learn of it too."""
_TICK_SECONDS = 0.05
_IDLE_TICK_SECONDS = 0.25
"""While this launcher dials nobody, and only hears the others."""


def form(
    membership: Membership,
    cluster: Cluster,
    make_go: Callable[[], dict[str, Any]],
    timeout: float,
    signals: Signals,
    clock: Callable[[], float] = time.monotonic,
    token: Token | None = None,
    say: Callable[[str], None] = print_progress,
    terms: Mapping[str, Any] | None = None,
    check: Callable[[Mapping[str, Any]], None] = lambda terms: None,
    watch: Callable[[], None] = lambda: None,
) -> FormedCluster:
    """Meets the other launchers of a job.

    Args:
        membership: Which workers are started here. Their ports are held.
        make_go: Called once all have met, by the chief's launcher alone: what it hands out.
        token: The job's secret: only launchers that have it take part. None where the network is trusted.
        terms: What the other launchers have to agree with; the chief's launcher sends it.
        check: Called with it by every launcher but the chief's, before that may call `make_go`.

    Raises:
        FormingError: The others did not come in time, or do not agree; or another launcher gave up, and then with its
            text and its exit code; or this process may not have a link to each of them.
        PortTakenError: This launcher cannot listen on a port that it holds.
        LauncherStopped: A signal came.
        Exception: What `make_go`, `check` and `watch` raise; the others are told.
    """
    if membership.has_chief:
        raise_limit(len(membership.remote))
    discovery = PeerDiscovery(membership, cluster, clock, token)
    barrier: LeaderBarrier | FollowerBarrier = FollowerBarrier(discovery, check, clock)
    if discovery.leads:
        barrier = LeaderBarrier(discovery, make_go, terms or {}, clock)
    forming = _Forming(discovery, barrier, timeout, signals, clock, Progress(say, clock), watch)
    formed = None
    try:
        formed = forming.run()
        return formed
    except Exception as error:
        # Whatever it is, the others need not wait until their time is up.
        said = encode(abort(error, discovery.hello.host))
        for line in discovery.lines():
            line.send_encoded(said)
        raise
    finally:
        discovery.close(formed=formed is not None)


class _Forming:
    def __init__(
        self,
        discovery: PeerDiscovery,
        barrier: LeaderBarrier | FollowerBarrier,
        timeout: float,
        signals: Signals,
        clock: Callable[[], float],
        progress: Progress,
        watch: Callable[[], None],
    ) -> None:
        self._discovery = discovery
        self._barrier = barrier
        self._timeout = timeout
        self._signals = signals
        self._clock = clock
        self._progress = progress
        self._watch = watch
        self._next_look = clock()

    def run(self) -> FormedCluster:
        deadline = self._clock() + self._timeout
        self._discovery.open()
        while True:
            self._discovery.step()
            problem = self._discovery.problem()
            if problem is not None:
                self._linger()
                raise FormingError(f"The launchers of this job do not agree: {problem}")
            formed = self._step_barrier()
            if formed is not None:
                self._progress.all_here(len(self._discovery.cluster))
                return formed
            if self._clock() > deadline:
                raise self._late()
            self._watch()
            self._show_progress()
            self._wait()

    def _step_barrier(self) -> FormedCluster | None:
        try:
            return self._barrier.step()
        except LateError:
            if not self._discovery.missing():
                raise
            # The launcher that gave up first, which has waited longest, may see all whom this one does not.
            raise self._late() from None

    def _late(self) -> LateError:
        return LateError(self._discovery.absence(self._timeout), self._discovery.missing())

    def _show_progress(self) -> None:
        """Now and then: what is shown is made of all that is known of all workers."""
        if self._progress.is_due and self._clock() >= self._next_look:
            self._next_look = self._clock() + _IDLE_TICK_SECONDS
            self._progress.show(self._discovery.waiting_text())

    def _wait(self) -> None:
        readable, writable = self._discovery.waiting_for()
        seconds = _IDLE_TICK_SECONDS if self._discovery.has_met_all else _TICK_SECONDS
        wait_for([*readable, self._signals], seconds, writable)
        self._signals.check()

    def _linger(self) -> None:
        deadline = self._clock() + LINGER_SECONDS
        while self._clock() < deadline:
            self._discovery.step()
            self._wait()
