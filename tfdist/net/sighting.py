"""What a launcher sees of a worker that it dials and has not met."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Sighting:
    """One attempt's result.

    Attributes:
        text: What it is, with what it means; follows the worker's name.
        brief: The same for a line of progress.
        depth: How far the attempt got. A host may have several addresses, of which some lead nowhere: what the one
            says that leads farthest is what helps.
    """

    text: str
    brief: str
    depth: int

    def __str__(self) -> str:
        return self.text


NOT_TRIED = Sighting("has not been tried yet", "not tried yet", 0)
RESOLVING = Sighting("has a name that is still being looked up on this host", "its name is being looked up", 0)
UNRESOLVED = Sighting("has a name that does not resolve on this host", "its name does not resolve", 1)
REFUSED = Sighting("refuses the connection: no tfdist launcher waits there, or not any more", "connection refused", 4)
STRANGER = Sighting(
    "takes the connection, but is no tfdist launcher: something else listens there", "something else listens there", 5
)
LEFT = Sighting("was there, and has left again", "has left again", 6)


def timed_out(seconds: float) -> Sighting:
    """No answer to the attempt to connect within `seconds`."""
    text = f"does not answer within {seconds:g} s: the host is down, or a firewall drops what is sent"
    return Sighting(text, "timed out", 3)


def says_nothing(seconds: float) -> Sighting:
    """A connection, and silence on it for `seconds`."""
    text = f"takes the connection, but says nothing for {seconds:g} s: something else listens there"
    return Sighting(text, "something else listens there", 5)


def unreachable(code: int, seconds: float) -> Sighting:
    """The errno of an attempt to connect that was given `seconds`."""
    if code == errno.ECONNREFUSED:
        return REFUSED
    if code == errno.ETIMEDOUT:
        return timed_out(seconds)
    # EHOSTUNREACH and ENETUNREACH: "No route to host", "Network is unreachable".
    return Sighting(f"cannot be reached: {os.strerror(code)}", os.strerror(code).lower(), 2)
