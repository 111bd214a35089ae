"""How fast one core hands memory to another, which on a virtual machine may change while a comparison runs.

Cores that share a cache do it several times as fast as cores that do not. Where a host moves a virtual machine's cores,
the same exchange in shared memory takes longer from one moment to the next, and nothing on the machine says so.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import numpy as np

BYTES = 512 << 10
"""Written at a time: a frame of tfdist's exchanges in shared memory."""

_PLACES = 4
_TIMES = 200
_SECONDS = 20


class CoreDistance:
    """Measures it again and again.

    Args:
        cores: The first two of them are measured; with one there is nothing to measure.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores[:2])
        self.microseconds: list[float] = []

    def measure(self) -> None:
        """Adds a measurement; takes some hundredths of a second."""
        if len(self._cores) == 2:
            self.microseconds.append(microseconds_to_write(*self._cores))

    def describe(self) -> str:
        """A line of text; empty without a measurement."""
        if not self.microseconds:
            return ""
        least, most = min(self.microseconds), max(self.microseconds)
        said = (
            f"To write 512 KiB that the other core has read took {least:.0f} to {most:.0f} microseconds between runs."
        )
        changed = " The cores were near each other at one time and far at another: compare ratios round by round."
        return said + (changed if most > 3 * least else "")


def microseconds_to_write(core: int, other: int) -> float:
    """The median time that `core` takes to write what `other` has read before, and writes to in turn.

    Raises:
        RuntimeError: A process did not come to its end in time.
    """
    context = multiprocessing.get_context("fork")
    memory = mmap.mmap(-1, 2 * _PLACES * BYTES)
    here, there = context.Pipe()
    peer = context.Process(target=_take_turns, args=(memory, 1, other, there), daemon=True)
    peer.start()
    before = os.sched_getaffinity(0)
    try:
        return statistics.median(_take_turns(memory, 0, core, here)) * 1e6
    finally:
        os.sched_setaffinity(0, before)
        peer.join(_SECONDS)
        if peer.is_alive():
            peer.kill()


def _take_turns(memory: mmap.mmap, place: int, core: int, other: Connection) -> list[float]:
    """Writes, waits until the other one has written, and reads both; the seconds that each writing took."""
    os.sched_setaffinity(0, {core})
    slots = np.frombuffer(memory, np.float32).reshape(2, _PLACES, -1)
    source, total = np.ones(slots.shape[2], np.float32), np.empty(slots.shape[2], np.float32)
    seconds = []
    for number in range(_TIMES):
        slot = number % _PLACES
        begun = time.perf_counter()
        slots[place, slot] = source
        seconds.append(time.perf_counter() - begun)
        other.send_bytes(b"written")
        if not other.poll(_SECONDS):
            raise RuntimeError(f"the process on the other core than {core} did not write for {_SECONDS} seconds")
        other.recv_bytes()
        np.add(slots[0, slot], slots[1, slot], out=total)
    return seconds
