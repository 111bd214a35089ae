"""How the launchers that have met agree to begin: the chief's leads, and says go once nobody misses anybody.

The others follow: each tells it whom it still misses, and waits for its word. Who gives up says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.errors import FormingError, TfdistError
from tfdist.launch.peers.peer_links import PeerLink, PeerLinks, keep_alive
from tfdist.launch.rendezvous.peer_discovery import CHIEF, RollCall
from tfdist.launch.signals import LauncherStopped
from tfdist.net.connector import Dial
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, Message
from tfdist.net.listener import Caller


@dataclass(frozen=True)
class Formed:
    """A cluster that has formed.

    Attributes:
        go: What the chief's launcher handed out.
        control: The lines between the launchers.
    """

    go: dict[str, Any]
    control: PeerLinks


class Leading:
    """The part of the chief's launcher.

    Args:
        roll: Who is here.
        make_go: Called once nobody misses anybody: what to hand out.
    """

    def __init__(self, roll: RollCall, make_go: Callable[[], dict[str, Any]]) -> None:
        self._roll = roll
        self._make_go = make_go

    def step(self) -> Formed | None:
        """Hears the others, and says go when it is time; the cluster, once it has formed.

        Raises:
            FormingError: Another launcher gave up.
        """
        roll, callers = self._roll, self._roll.callers
        # Each is heard before it is dropped: its last word may be why it leaves.
        present = [caller for caller in callers if caller.listen()]
        for caller in callers:
            if caller.abort is not None:
                raise _given_up(caller.abort)
        for caller in callers:
            if caller not in present:
                roll.forget(caller)
        callers[:] = present
        linked = sorted(index for caller in callers for index in caller.hello.local)
        ready = all(caller.missing == {} for caller in callers) and not roll.missing()
        if linked != list(roll.remote) or not ready:
            return None
        go = self._make_go()
        for caller in callers:
            caller.line.send({"go": go})
        return _formed(roll, go, [_link(roll, caller.hello, caller) for caller in callers])


class Following:
    """The part of every other launcher.

    Args:
        roll: Who is here.
    """

    def __init__(self, roll: RollCall) -> None:
        self._roll = roll
        self._told: dict[int, str] | None = None

    def step(self) -> Formed | None:
        """Tells the chief's launcher whom this one misses, and hears it; the cluster, once it has formed.

        Raises:
            FormingError: The chief's launcher gave up.
        """
        chief = self._roll.dials[CHIEF]
        if chief.met is None or chief.line is None:
            self._told = None
            return None
        missing = {index: seen.text for index, seen in self._roll.missing().items()}
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
            return _formed(self._roll, messages[0]["go"], [_link(self._roll, chief.met, chief)])
        if chief.line.is_closed():
            chief.lose()
        return None


def abort(error: Exception, host: str) -> Message:
    """What a launcher says to the others when it gives up because of `error`."""
    code, text = FormingError.exit_code, f"A launcher failed: {type(error).__name__}: {error}"
    if isinstance(error, TfdistError | LauncherStopped):
        code, text = error.exit_code, str(error)
    return {"abort": {"code": code, "text": text, "host": host}}


def _given_up(said: Message) -> FormingError:
    error = FormingError(f"{said.get('text')}\n(Received from the launcher on {said.get('host')}.)")
    code = said.get("code")
    if type(code) is int and 0 < code < 256:
        error.exit_code = code
    return error


def _link(roll: RollCall, hello: Hello, end: Caller | Dial) -> PeerLink:
    assert end.line is not None
    addresses = tuple(str(roll.cluster.workers[index]) for index in hello.local)
    keep_alive(end.line.connection)
    return PeerLink(end.line, hello.host, hello.local, addresses)


def _formed(roll: RollCall, go: dict[str, Any], links: Sequence[PeerLink]) -> Formed:
    return Formed(go, PeerLinks(links, leads=roll.leads, remote=roll.remote))
