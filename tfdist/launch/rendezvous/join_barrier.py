"""Join barrier: the launchers that have met start together, once none of them misses another.

The chief's launcher leads: it tells each of the others what they have to agree with and, while somebody is missing,
who is here; and it sends "go" with what all must know. The others follow: each tells the leader whether it can take
part and whom it still misses of those that it dials, and waits for its word. A launcher that gives up says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.errors import FormingError, TfdistError
from tfdist.launch.peers.peer_links import PeerLink, PeerLinks, keep_alive
from tfdist.launch.rendezvous.followers import CHIEF, Overview
from tfdist.launch.rendezvous.missing_workers import describe_outcome
from tfdist.launch.rendezvous.peer_discovery import PeerDiscovery
from tfdist.launch.signals import LauncherStopped
from tfdist.net.connection_attempts import DialOutcome
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message, encode
from tfdist.text import safe_str

OVERVIEW_SECONDS = 2.0
"""The interval, in seconds, at which the chief's launcher tells the others who is here."""
_TELL_SECONDS = 1.0
_MOST_OVERVIEWS = 100
"""That are taken in one after another, before this launcher looks at the others again."""
_RECEIVED = "(Received from the launcher on"


class LateError(FormingError):
    """Not all came in time: each launcher may know best itself whom it misses.

    Attributes:
        missing: The workers that this launcher dials and has not met, with what was seen of them.
    """

    def __init__(self, text: str, missing: Mapping[int, DialOutcome] | None = None) -> None:
        super().__init__(text)
        self.missing = dict(missing or {})


@dataclass(frozen=True)
class FormedCluster:
    """A cluster that has formed.

    Attributes:
        go: What the chief's launcher handed out.
        links: The links between the launchers.
    """

    go: dict[str, Any]
    links: PeerLinks


class LeaderBarrier:
    """The part of the chief's launcher.

    Args:
        make_go: Called once none misses another and all can take part: what to hand out.
    """

    def __init__(
        self,
        discovery: PeerDiscovery,
        make_go: Callable[[], dict[str, Any]],
        terms: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discovery = discovery
        self._make_go = make_go
        self._terms = encode({"terms": dict(terms)})
        self._clock = clock
        self._next_overview = clock() + OVERVIEW_SECONDS

    def step(self) -> FormedCluster | None:
        """Hears the followers, tells new ones the terms, and sends "go" when it is time.

        Returns:
            The cluster, once it has formed.

        Raises:
            FormingError: Another launcher gave up, or cannot take part.
        """
        discovery, followers = self._discovery, self._discovery.followers
        heard = followers.hear()
        for follower in heard:
            if follower.abort is not None:
                raise _given_up(follower.abort)
        for follower in heard:
            if follower.line.is_closed():
                discovery.forget(follower)
            elif not follower.has_terms:
                follower.line.send_encoded(self._terms)
                follower.has_terms = True
        have_met = discovery.has_met_all and followers.miss_nobody()
        if not have_met or not followers.are(len(discovery.remote)):
            self._tell_overview()
            return None
        for follower in followers:
            if follower.refusal is not None:
                raise _given_up(follower.refusal)
        go = self._make_go()
        said = encode({"go": go})
        for follower in followers:
            follower.line.send_encoded(said)
        return _formed(discovery, go, [_link(discovery, follower.hello, follower.line) for follower in followers])

    def _tell_overview(self) -> None:
        """Tells the others now and then who is here, since they do not dial all."""
        if self._clock() < self._next_overview:
            return
        self._next_overview = self._clock() + OVERVIEW_SECONDS
        said = encode(self._discovery.own_overview().to_message())
        for follower in self._discovery.followers:
            follower.line.flush()
            # One that does not read gets no more than it has; the newest comes a moment later.
            if not follower.line.has_unsent:
                follower.line.send_encoded(said)


class FollowerBarrier:
    """The part of every other launcher.

    Args:
        check: Called with the terms of the chief's launcher: raises why this launcher cannot take part.
    """

    def __init__(
        self,
        discovery: PeerDiscovery,
        check: Callable[[Mapping[str, Any]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discovery = discovery
        self._check = check
        self._clock = clock
        self._is_asked = False
        self._refusal: TfdistError | None = None
        self._told: dict[int, str] | None = None
        self._next_tell = clock()

    def step(self) -> FormedCluster | None:
        """Tells the chief's launcher whom this one misses, and hears it; the cluster, once it has formed.

        Raises:
            FormingError: The chief's launcher gave up.
            TfdistError: What `check` raised, once all launchers have met.
        """
        chief = self._discovery.connectors[CHIEF]
        if chief.met is None or chief.line is None:
            # One that was started again may have other terms.
            self._is_asked, self._refusal, self._told = False, None, None
            return None
        if self._is_asked:
            self._tell(chief.line)
        said = self._hear(chief.line)
        if self._refusal is not None and {"abort", "go"} & said.keys():
            raise self._refusal
        if "abort" in said:
            raise _given_up(said["abort"])
        if "go" in said:
            return _formed(self._discovery, said["go"], [_link(self._discovery, chief.met, chief.line)])
        if "terms" in said and not self._is_asked:
            self._ask(said["terms"])
        if chief.line.is_closed():
            self._discovery.lose_chief()
        return None

    def _hear(self, line: LineSocket) -> dict[str, Message]:
        """The next message but overviews, which are taken in; without what is not understood."""
        for _ in range(_MOST_OVERVIEWS):
            try:
                # One at a time: what follows the "go" is for the job.
                messages = line.receive(1)
                said = {name: word for message in messages for name, word in message.items() if isinstance(word, dict)}
                if "overview" not in said:
                    return said
                self._discovery.overview = Overview.from_message(said["overview"])
            except LineError:
                line.close()
                break
        return {}

    def _ask(self, terms: Message) -> None:
        """Calls `check`. A refusal is no reason to leave before all are here: the others would wait."""
        self._is_asked = True
        try:
            self._check(terms)
        except TfdistError as error:
            self._refusal = error

    def _tell(self, line: LineSocket) -> None:
        """Says whom this launcher misses: when it misses nobody at once, and what it sees meanwhile now and then."""
        if self._told is not None and not self._discovery.has_met_all and self._clock() < self._next_tell:
            return
        missing = {index: describe_outcome(seen) for index, seen in self._discovery.missing().items()}
        if missing == self._told:
            return
        refusal = {} if self._refusal is None else {"refusal": _reason(self._refusal, self._discovery.hello.host)}
        line.send({"missing": missing, **refusal})
        self._told = missing
        self._next_tell = self._clock() + _TELL_SECONDS


def abort(error: Exception, host: str) -> Message:
    """Returns what a launcher says to the others when it gives up because of `error`."""
    return {"abort": _reason(error, host)}


def _reason(error: Exception, host: str) -> Message:
    code, text = FormingError.exit_code, f"A launcher failed: {type(error).__name__}: {safe_str(error)}"
    if isinstance(error, TfdistError | LauncherStopped):
        code, text = error.exit_code, safe_str(error)
    return {"code": code, "text": text, "host": host, **({"late": True} if isinstance(error, LateError) else {})}


def _given_up(said: Message) -> FormingError:
    text = str(said.get("text"))
    # Passed on by the chief's launcher, it names the one that said it first.
    kind = LateError if said.get("late") is True else FormingError
    error = kind(text if _RECEIVED in text else f"{text}\n{_RECEIVED} {said.get('host')}.)")
    code = said.get("code")
    if type(code) is int and 0 < code < 256:
        error.exit_code = code
    return error


def _link(discovery: PeerDiscovery, hello: Hello, line: LineSocket) -> PeerLink:
    addresses = tuple(str(discovery.cluster.workers[index]) for index in hello.local)
    keep_alive(line.connection)
    return PeerLink(line, hello.host, hello.local, addresses)


def _formed(discovery: PeerDiscovery, go: dict[str, Any], links: Sequence[PeerLink]) -> FormedCluster:
    return FormedCluster(go, PeerLinks(links, leads=discovery.leads, remote=discovery.remote))
