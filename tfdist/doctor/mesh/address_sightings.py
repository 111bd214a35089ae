"""What can be seen at the address of a worker, in words, and what to do about it."""

from __future__ import annotations

import enum
import errno
import os
from dataclasses import dataclass

CONNECT_SECONDS = 3.0
# Shorter than a launcher that waits for its cluster bears with a silent caller, so that it is known by its silence.
ANSWER_SECONDS = 4.0
# An HTTP/2 server begins with a frame of type 4, SETTINGS: three bytes of length, then the type.
_SETTINGS_FRAME = 4


class Kind(enum.Enum):
    """What became of calling a worker, from nothing done to the doctor there met."""

    NOT_TRIED = "not tried"
    RESOLVING = "resolving"
    CALLED = "called"
    UNRESOLVED = "unresolved"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    GRPC = "grpc"
    STRANGER = "stranger"
    CLOSED = "closed"
    LEFT = "left"
    MET = "met"


_WORDS = {
    Kind.NOT_TRIED: ("has not been tried", "Give it more time with --timeout."),
    Kind.RESOLVING: (
        "its name is still being looked up on this host",
        "Repair this host's DNS (/etc/resolv.conf), or put the name into /etc/hosts, or use addresses in --workers.",
    ),
    Kind.CALLED: ("has not answered yet", "Give it more time with --timeout."),
    Kind.UNRESOLVED: (
        "its name does not resolve on this host",
        "Put the name into DNS or this host's /etc/hosts, or use addresses in --workers.",
    ),
    Kind.REFUSED: (
        "refuses the connection: no doctor listens there",
        "Start the same `tfdist doctor --workers ...` on that host at the same time; if it runs there, a firewall "
        "rejects the port.",
    ),
    Kind.TIMED_OUT: (
        f"does not answer within {CONNECT_SECONDS:g} s",
        "Check that the host is up and that no firewall drops TCP to this port from this host.",
    ),
    Kind.UNREACHABLE: ("cannot be reached", "Check this host's routes and interfaces (ip route get ADDRESS)."),
    Kind.SILENT: (
        f"takes the connection, but says nothing for {ANSWER_SECONDS:g} s: something else listens there, "
        "such as a `tfdist train` that waits for its cluster",
        "See on that host who has the port (ss -ltnp), or choose another in --workers. It was left alone.",
    ),
    Kind.GRPC: (
        "a gRPC server answers, such as TensorFlow's: a job seems to run there",
        "Wait for the job to end, or choose another port in --workers. The job was left alone.",
    ),
    Kind.STRANGER: (
        "takes the connection, but is no tfdist doctor of this version: something else listens there",
        "See on that host who has the port (ss -ltnp), or choose another in --workers. It was left alone.",
    ),
    Kind.CLOSED: (
        "takes the connection and closes it without a word",
        "Start the same `tfdist doctor --workers ...` on that host at the same time; if it runs there, something "
        "between the hosts (a proxy, a container's port mapping) takes the connection in its place.",
    ),
    Kind.LEFT: ("was there, and has left", "Start the doctors of all hosts again."),
    Kind.MET: ("answers", ""),
}


@dataclass(frozen=True)
class Sighting:
    """What was seen at an address.

    Attributes:
        kind: Of what sort it is.
        detail: What the system said; empty where the kind says all.
    """

    kind: Kind
    detail: str = ""

    @property
    def found(self) -> str:
        """In words."""
        words = _WORDS[self.kind][0]
        return f"{words}: {self.detail}" if self.detail else words

    @property
    def advice(self) -> str:
        """What to do."""
        return _WORDS[self.kind][1]


def of_error(code: int) -> Sighting:
    """What an error of `connect` means."""
    if code == errno.ECONNREFUSED:
        return Sighting(Kind.REFUSED)
    if code == errno.ETIMEDOUT:
        return Sighting(Kind.TIMED_OUT)
    return Sighting(Kind.UNREACHABLE, os.strerror(code))


def of_first_bytes(data: bytes) -> Sighting:
    """Who begins like that, and is no doctor."""
    if len(data) > 3 and data[3] == _SETTINGS_FRAME and not data[0]:
        return Sighting(Kind.GRPC)
    return Sighting(Kind.STRANGER)
