"""Samples of what the system knows of a process: why it does not answer, from two of them, and what it has mapped."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STOPPED = "its process is stopped (SIGSTOP, Ctrl-Z, a debugger)"
SILENT = "it does not answer: its machine is out of reach, or native code does not let Python run"
NATIVE = "it does not answer: native code does not let Python run"
_PROC = Path("/proc")
_SHARED_MAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r.-s ([0-9a-f]+) \S+ \d+ +(/(?!dev/|memfd:).*)$", re.MULTILINE)
"""A line of /proc/PID/maps: of a file whose changes are seen, which no library is."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_BUSY = 0.05
"""Part of a processor that a process uses that runs at all."""


@dataclass(frozen=True)
class ProcessSample:
    """A process at a moment.

    Attributes:
        states: The states of its threads, the main one's first, by the system's letters, such as `S` and `T`.
        processor_seconds: What all of its threads have computed.
        swapped: The part of its memory that is swapped out, from 0 to 1.
    """

    states: str
    processor_seconds: float
    swapped: float

    @classmethod
    def of(cls, pid: int, proc: Path = _PROC) -> ProcessSample | None:
        """The sample of a process of this machine; None where there is none."""
        try:
            # The state comes after the name, which is in brackets and may hold any character.
            fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            return cls(
                fields[0] + _other_states(proc / str(pid), pid),
                (int(fields[11]) + int(fields[12])) / _TICKS,
                _swapped(proc / str(pid) / "status"),
            )
        except (OSError, IndexError, ValueError):
            return None

    @property
    def is_stopped(self) -> bool:
        """True if it is stopped, by SIGSTOP, Ctrl-Z or a debugger."""
        return self.states[0] in "Tt"


def why_silent(before: ProcessSample | None, after: ProcessSample | None, seconds: float) -> str:
    """Returns why a process of this machine does not answer, in words.

    Args:
        before: The process when it was asked.
        after: The process now.
        seconds: The time between them.
    """
    if before is None or after is None:
        return SILENT
    if after.is_stopped:
        return STOPPED
    if after.states[0] == "D":
        return "it waits in the kernel for a disk or a file system that does not answer"
    if after.swapped > 0.5:
        return "most of its memory is swapped out: its machine has too little"
    if "R" in after.states and after.processor_seconds - before.processor_seconds < _BUSY * seconds:
        return "it gets no processor: other processes, or the limit of its control group, keep it waiting"
    return NATIVE


def mapped_files(pid: int, proc: Path = _PROC) -> dict[str, int]:
    """Files that a process of this machine has mapped into its memory -> the bytes that each has at least, about.

    Empty where there is no such process.
    """
    try:
        maps = (proc / str(pid) / "maps").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found: dict[str, int] = {}
    for begin, end, offset, path in _SHARED_MAP.findall(maps):
        # The last page need not be full.
        size = int(offset, 16) + int(end, 16) - int(begin, 16) - _PAGE + 1
        found[path] = max(found.get(path, 0), size)
    return found


def shrunk_file(files: Mapping[str, int]) -> str:
    """Returns which of some files is smaller than it was, in words; empty where none is."""
    for path, size in files.items():
        try:
            now = os.stat(path).st_size
        except OSError:
            continue
        if now < size:
            return f"{path} had {size:,} bytes or more when it was mapped into memory, and has {now:,}"
    return ""


def _other_states(process: Path, pid: int) -> str:
    """The states of the threads beside the main one; one that ends meanwhile is left out."""
    states = ""
    for thread in sorted((process / "task").iterdir()):
        if thread.name != str(pid):
            with contextlib.suppress(OSError, IndexError):
                states += (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return states


def _swapped(status: Path) -> float:
    sizes = {"VmRSS": 0, "VmSwap": 0}
    for line in status.read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in sizes:
            sizes[name] = int(value.split()[0])
    return sizes["VmSwap"] / max(sum(sizes.values()), 1)
