"""How two doctors introduce themselves, and whether what they say would let a job form."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.hello import versions
from tfdist.net.line_socket import LineError, Message

PROTOCOL = 1
BANNER: Message = {"doctor": PROTOCOL}
"""What a doctor says first to whoever calls: a caller who hears something else has sent nothing, and leaves."""


@dataclass(frozen=True)
class Greeting:
    """One doctor's introduction.

    Attributes:
        doctor: Different for every doctor process.
        host: Its machine's name.
        cluster: The worker list that it was given.
        local: The workers of its machine that it speaks for.
        versions: Of what must be the same on every host.
        token: Whether TFDIST_TOKEN is set there.
        taken: Worker -> who has its port, for those whose port is not free.
    """

    doctor: str
    host: str
    cluster: str
    local: tuple[int, ...]
    versions: dict[str, str]
    token: bool
    taken: dict[int, str]

    @classmethod
    def own(cls, cluster: Cluster, local: tuple[int, ...], *, token: bool, taken: Mapping[int, str]) -> Greeting:
        """This doctor's."""
        return cls(secrets.token_hex(8), socket.gethostname(), str(cluster), local, versions(), token, dict(taken))

    def to_message(self) -> Message:
        """The greeting as it is sent."""
        return {"greeting": asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> Greeting:
        """The greeting that another doctor sent.

        Raises:
            LineError: It is none.
        """
        told: Any = message.get("greeting")
        try:
            return cls(
                str(told["doctor"]),
                str(told["host"]),
                str(told["cluster"]),
                tuple(int(index) for index in told["local"]),
                {str(name): str(version) for name, version in told["versions"].items()},
                bool(told["token"]),
                {int(index): str(text) for index, text in told["taken"].items()},
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            raise LineError("a message that is no greeting of a tfdist doctor") from None


@dataclass(frozen=True)
class Disagreement:
    """Why two hosts would not form a cluster.

    Attributes:
        found: What differs.
        advice: What to do.
    """

    found: str
    advice: str


def leads_elsewhere(mine: Greeting, theirs: Greeting, reached: int) -> Disagreement | None:
    """Whether the address of a worker leads to somebody else; None when it leads to that worker.

    Args:
        mine: This doctor's greeting.
        theirs: That of the doctor which answered.
        reached: The worker whose address was called.
    """
    advice = "Check what its name resolves to on this host, and --index there."
    if mine.doctor == theirs.doctor and reached not in mine.local:
        return Disagreement("the address leads back to this machine", advice)
    if reached not in theirs.local and mine.cluster == theirs.cluster:
        held = ", ".join(map(str, theirs.local))
        return Disagreement(f"the address leads to {theirs.host}, which has worker(s) {held}", advice)
    return None


def disagreement(mine: Greeting, theirs: Greeting) -> Disagreement | None:
    """What two hosts must have alike and have not; None when all is alike."""
    there = theirs.host
    if mine.cluster != theirs.cluster:
        return Disagreement(
            f"{there} was given another worker list: {theirs.cluster}",
            f"Give the same list in the same order on every host. Here it is {mine.cluster}",
        )
    differing = [
        f"{name} {mine.versions.get(name)} here, {theirs.versions.get(name)} on {there}"
        for name in sorted({*mine.versions, *theirs.versions})
        if mine.versions.get(name) != theirs.versions.get(name)
    ]
    if differing:
        return Disagreement(f"other versions: {'; '.join(differing)}", "Install the same versions on every host.")
    twice = sorted(set(mine.local) & set(theirs.local)) if mine.doctor != theirs.doctor else []
    if twice:
        listed = ", ".join(map(str, twice))
        return Disagreement(f"worker(s) {listed} are claimed here and by {there}", "Give each host its own --index.")
    if mine.token != theirs.token:
        where = "here, and not on" if mine.token else "not here, but on"
        return Disagreement(f"TFDIST_TOKEN is set {where} {there}", "Set the same TFDIST_TOKEN on every host, or none.")
    return None
