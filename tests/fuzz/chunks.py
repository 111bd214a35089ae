"""Bytes on their way through a socket, in pieces and with ends that come at any time."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Sequence

from hypothesis import strategies as st


@st.composite
def pieces(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes in pieces: whole, byte by byte for a while, or cut at some places."""
    whole = draw(data)
    places = draw(st.lists(st.integers(0, len(whole)), max_size=6, unique=True).map(sorted))
    if draw(st.booleans()):
        places = sorted({*places, *range(min(len(whole), 30))})
    return [whole[start:stop] for start, stop in zip([0, *places], [*places, len(whole)], strict=True)]


def deliver(sender: socket.socket, parts: Sequence[bytes], step: Callable[[], object]) -> None:
    """Sends parts one after another, with a step of the receiver after each, which may hang up."""
    sender.setblocking(False)
    for part in parts:
        rest = memoryview(part)
        while rest:
            try:
                rest = rest[sender.send(rest) :]
            except BlockingIOError:
                step()
                # A receiver in a thread of its own needs the processor.
                select.select([], [sender], [], 1.0)
            except OSError:
                return
        step()


def end(sender: socket.socket, how: str) -> None:
    """Ends what is sent: not at all, by half, wholly, or with a reset."""
    with contextlib.suppress(OSError):
        if how == "half":
            sender.shutdown(socket.SHUT_WR)
        elif how == "reset":
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sender.close()
        elif how == "whole":
            sender.close()


ENDS = st.sampled_from(("none", "half", "whole", "reset"))
