"""The result of dialling the address of a worker: how far the last attempt got, free of words for users."""

from __future__ import annotations

import enum
import errno
import os
from dataclasses import dataclass

# An HTTP/2 server begins with a frame of type 4, SETTINGS: three bytes of length, then the type.
_SETTINGS_FRAME = 4


class DialStatus(enum.IntEnum):
    """The stage of an attempt; the order matters, as a host may have several addresses, and the farthest one counts."""

    NOT_TRIED = 0
    RESOLVING = 1
    CONNECTING = 2
    """No attempt has ended yet."""
    UNRESOLVED = 3
    UNREACHABLE = 4
    TIMED_OUT = 5
    REFUSED = 6
    CLOSED = 7
    """Connected, and closed by the other side before it introduced itself."""
    SILENT = 8
    STRANGER = 9
    """Connected to something that does not speak the protocol."""
    GRPC = 10
    """A stranger that is known: a gRPC server, such as TensorFlow's."""
    MISMATCHED = 11
    """Connected to one that has another token or none, or claims so; the detail says which."""
    LEFT = 12
    """Met, and gone again."""
    MET = 13


@dataclass(frozen=True)
class DialOutcome:
    """The result of one attempt.

    Attributes:
        status: How far it got.
        detail: What the system said of it; empty where the status says all.
    """

    status: DialStatus
    detail: str = ""


def of_errno(code: int) -> DialOutcome:
    """The outcome of a `connect` that failed with this errno."""
    if code == errno.ECONNREFUSED:
        return DialOutcome(DialStatus.REFUSED)
    if code == errno.ETIMEDOUT:
        return DialOutcome(DialStatus.TIMED_OUT)
    # EHOSTUNREACH and ENETUNREACH: "No route to host", "Network is unreachable".
    return DialOutcome(DialStatus.UNREACHABLE, os.strerror(code))


def of_first_bytes(data: bytes) -> DialOutcome:
    """The outcome where the other side begins with these bytes, which are not JSON."""
    if len(data) > 3 and data[3] == _SETTINGS_FRAME and not data[0]:
        return DialOutcome(DialStatus.GRPC)
    return DialOutcome(DialStatus.STRANGER)
