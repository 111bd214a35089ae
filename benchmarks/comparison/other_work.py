"""How much of the machine others took while a comparison ran: its figures are good where that is next to none."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_DISTURBING = 0.1
"""Cores' worth of time of others from which figures are not to be taken."""

_IDLE = (3, 4)
"""The places of idle time and of waiting for disks in the first line of /proc/stat."""

_GUESTS = slice(8, None)
"""The time of virtual machines, which the others contain."""


class OtherWork:
    """What others do from now on. Time that the host of a virtual machine takes away is theirs, too."""

    def __init__(self) -> None:
        self._begun = (time.monotonic(), busy_seconds(Path("/proc/stat").read_text()), _own_seconds())

    def cores(self) -> float:
        """Cores' worth of time that they took since, on average.

        What processes did that are not ended yet, and were started by this one, counts as theirs until they are.
        """
        now = (time.monotonic(), busy_seconds(Path("/proc/stat").read_text()), _own_seconds())
        elapsed, busy, own = (after - before for after, before in zip(now, self._begun, strict=True))
        return max(0.0, busy - own) / max(elapsed, 1e-9)

    def describe(self) -> str:
        """A line of text."""
        cores = self.cores()
        said = f"Other processes took {cores:.2f} cores' worth of time while this ran."
        return said if cores < _DISTURBING else f"**{said} Take no figure from here: the machine was not quiet.**"


def busy_seconds(stat: str) -> float:
    """Seconds in which cores were not idle since the system was started, of the text of /proc/stat."""
    ticks = [int(field) for field in stat.partition("\n")[0].split()[1:]]
    del ticks[_GUESTS]
    return (sum(ticks) - sum(ticks[place] for place in _IDLE)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of this process and of all that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
