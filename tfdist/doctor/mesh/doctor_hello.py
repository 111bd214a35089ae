"""The hello of a doctor, and whether two of them would let a job form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineError, Message
from tfdist.net.told_list import in_words

BANNER: Message = {"doctor": 2}
"""The first message of a doctor to whoever calls, with the version of the doctors' protocol."""
DOCTOR_SECONDS = 4.0
"""For an introduction: less than a launcher bears with a silent caller, so that it is known by its silence."""


@dataclass(frozen=True)
class DoctorHello(Hello):
    """A doctor's hello.

    Attributes:
        token: Whether TFDIST_TOKEN is set there.
        taken: Worker -> who has its port, for those whose port is not free.
    """

    speaker: ClassVar[str] = "doctor"

    token: bool = False
    taken: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        hello = super().from_message(message)
        told: Any = message["hello"]
        try:
            taken = {int(index): str(text) for index, text in told["taken"].items()}
            return replace(hello, token=bool(told["token"]), taken=taken)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise LineError("a message that is not the hello of a tfdist doctor") from None


def doctor_introduction(hello: DoctorHello) -> Introduction[DoctorHello]:
    """Returns how doctors introduce themselves: a caller stays silent until it has heard the banner of a doctor."""
    return Introduction(hello, banner=BANNER, seconds=DOCTOR_SECONDS, line_bytes=MAX_HELLO_BYTES)


@dataclass(frozen=True)
class Disagreement:
    """The reason why two hosts would not form a cluster.

    Attributes:
        found: What differs.
        advice: What to do.
    """

    found: str
    advice: str


def leads_elsewhere(mine: DoctorHello, theirs: DoctorHello, reached: int) -> Disagreement | None:
    """Returns whether the address of a worker leads to somebody else; None when it leads to that worker.

    Args:
        mine: This doctor's hello.
        theirs: That of the doctor which answered.
        reached: The worker whose address was dialled.
    """
    advice = "Check what its name resolves to on this host, and --index there."
    if mine.sender == theirs.sender and reached not in mine.local:
        return Disagreement("the address leads back to this machine", advice)
    if reached not in theirs.local and mine.cluster == theirs.cluster:
        held = ", ".join(map(str, theirs.local))
        return Disagreement(f"the address leads to {theirs.host}, which has worker(s) {held}", advice)
    return None


def disagreement(mine: DoctorHello, theirs: DoctorHello) -> Disagreement | None:
    """Returns what two hosts must have alike and have not; None when all is alike."""
    there = theirs.host
    if mine.cluster != theirs.cluster:
        return Disagreement(
            f"{there} was given another worker list: {in_words(theirs.cluster)}",
            f"Give the same list in the same order on every host. Here it is {in_words(mine.cluster)}",
        )
    differing = [f"{name} {here} here, {other} on {there}" for name, here, other in mine.version_differences(theirs)]
    if differing:
        return Disagreement(f"other versions: {'; '.join(differing)}", "Install the same versions on every host.")
    twice = sorted(set(mine.local) & set(theirs.local)) if mine.sender != theirs.sender else []
    if twice:
        listed = ", ".join(map(str, twice))
        return Disagreement(f"worker(s) {listed} are claimed here and by {there}", "Give each host its own --index.")
    if mine.token != theirs.token:
        where = "here, and not on" if mine.token else "not here, but on"
        return Disagreement(f"TFDIST_TOKEN is set {where} {there}", "Set the same TFDIST_TOKEN on every host, or none.")
    return None
