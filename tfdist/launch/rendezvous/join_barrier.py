"""Join barrier: the launchers that have met start together, once none of them misses another.

The chief's launcher leads: it tells each of the others what they have to agree with, and sends "go" with what all must
know. The others follow: each tells the leader whether it can take part and whom it still misses, and waits for its
word. A launcher that gives up says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.errors import FormingError, TfdistError
from tfdist.launch.peers.peer_links import PeerLink, PeerLinks, keep_alive
from tfdist.launch.rendezvous.missing_workers import describe_outcome
from tfdist.launch.rendezvous.peer_discovery import CHIEF, PeerDiscovery
from tfdist.launch.signals import LauncherStopped
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message

_RECEIVED = "(Received from the launcher on"


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
        discovery: Who is here.
        make_go: Called once none misses another and all can take part: what to hand out.
        terms: What the others have to agree with.
    """

    def __init__(
        self, discovery: PeerDiscovery, make_go: Callable[[], dict[str, Any]], terms: Mapping[str, Any]
    ) -> None:
        self._discovery = discovery
        self._make_go = make_go
        self._terms = dict(terms)

    def step(self) -> FormedCluster | None:
        """Hears the followers, tells new ones the terms, and sends "go" when it is time.

        Returns:
            The cluster, once it has formed.

        Raises:
            FormingError: Another launcher gave up, or cannot take part.
        """
        discovery, followers = self._discovery, self._discovery.followers
        # Each is heard before it is dropped: its last message may say why it leaves.
        present = [follower for follower in followers if follower.listen()]
        for follower in followers:
            if follower.abort is not None:
                raise _given_up(follower.abort)
        for follower in followers:
            if follower not in present:
                discovery.forget(follower)
        followers[:] = present
        for follower in followers:
            if not follower.has_terms:
                follower.line.send({"terms": self._terms})
                follower.has_terms = True
        linked = sorted(index for follower in followers for index in follower.hello.local)
        ready = all(follower.missing == {} for follower in followers) and not discovery.missing()
        if linked != list(discovery.remote) or not ready:
            return None
        for follower in followers:
            if follower.refusal is not None:
                raise _given_up(follower.refusal)
        go = self._make_go()
        for follower in followers:
            follower.line.send({"go": go})
        return _formed(discovery, go, [_link(discovery, follower.hello, follower.line) for follower in followers])


class FollowerBarrier:
    """The part of every other launcher.

    Args:
        discovery: Who is here.
        check: Called with the terms of the chief's launcher: raises why this launcher cannot take part.
    """

    def __init__(self, discovery: PeerDiscovery, check: Callable[[Mapping[str, Any]], None]) -> None:
        self._discovery = discovery
        self._check = check
        self._is_asked = False
        self._refusal: TfdistError | None = None
        self._told: dict[int, str] | None = None

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
            chief.lose()
        return None

    def _hear(self, line: LineSocket) -> dict[str, Message]:
        """The next message, without what is not understood."""
        try:
            messages = line.receive(1)
        except LineError:
            line.close()
            return {}
        return {name: word for message in messages for name, word in message.items() if isinstance(word, dict)}

    def _ask(self, terms: Message) -> None:
        """Calls `check`. A refusal is no reason to leave before all are here: the others would wait."""
        self._is_asked = True
        try:
            self._check(terms)
        except TfdistError as error:
            self._refusal = error

    def _tell(self, line: LineSocket) -> None:
        missing = {index: describe_outcome(seen) for index, seen in self._discovery.missing().items()}
        if missing == self._told:
            return
        refusal = {} if self._refusal is None else {"refusal": _reason(self._refusal, self._discovery.hello.host)}
        line.send({"missing": missing, **refusal})
        self._told = missing


def abort(error: Exception, host: str) -> Message:
    """What a launcher says to the others when it gives up because of `error`."""
    return {"abort": _reason(error, host)}


def _reason(error: Exception, host: str) -> Message:
    code, text = FormingError.exit_code, f"A launcher failed: {type(error).__name__}: {error}"
    if isinstance(error, TfdistError | LauncherStopped):
        code, text = error.exit_code, str(error)
    return {"code": code, "text": text, "host": host}


def _given_up(said: Message) -> FormingError:
    text = str(said.get("text"))
    # Passed on by the chief's launcher, it names the one that said it first.
    error = FormingError(text if _RECEIVED in text else f"{text}\n{_RECEIVED} {said.get('host')}.)")
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
