"""The ledger's lines: what a run's wall time was spent on, one JSON object for each interval or event.

Two processes append to the file, both on the chief's machine: the chief writes what it did, and its launcher when
attempts started and how they ended. A line is written by one call. A writer that is killed leaves at most its last line
incomplete; readers skip it, and the next line starts on a line of its own.
"""

from __future__ import annotations

import enum
import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist import bounded_json
from tfdist.errors import RunDirError
from tfdist.rundir.atomic_files import write_error
from tfdist.rundir.json_record import JsonRecord
from tfdist.rundir.regular_files import open_regular, open_to_append


class TimeKind(enum.StrEnum):
    """A kind of wall time. The chief writes all but `restart` and `replay`, which readers work out."""

    STEP = "step"
    INPUT = "input"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    CALLBACK = "callback"
    COMPILE = "compile"
    RESTORE = "restore"
    START_UP = "start-up"
    FORMING = "forming"
    BUILDING = "building"
    RESTART = "restart"
    REPLAY = "replay"
    OTHER = "other"


class AttemptPhase(enum.StrEnum):
    """The phase of an attempt, as a launcher writes it: that its workers start, and how it ended."""

    RUNNING = "running"
    RESTARTING = "restarting"
    """It failed, and another one follows."""
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody asked the job to stop."""


@dataclass(frozen=True)
class LedgerInterval(JsonRecord):
    """The work of the chief in an interval of time.

    Attributes:
        attempt: The attempt that it belongs to, from 0.
        since: When the interval began, in seconds since 1970 (UTC).
        at: When it ended.
        seconds: `TimeKind` -> seconds spent on it.
        steps: Training batches done in it.
        step: Training batches of the run that were done at its end.

    Raises:
        ValueError: A value has another type, or the interval ends before it begins.
    """

    attempt: int
    since: float
    at: float
    seconds: Mapping[str, float]
    steps: int
    step: int

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, Mapping):
            raise ValueError(f"expected kinds of time with their seconds. Received: {self.seconds!r:.200}")
        _check_times(self.since, self.at, *self.seconds.values())
        _check_counts(self.attempt, self.steps, self.step)
        if self.at < self.since or not self.seconds.keys() <= _KINDS:
            raise ValueError("expected an interval that ends after it begins, and known kinds of time")


@dataclass(frozen=True)
class LedgerEvent(JsonRecord):
    """The start or the end of an attempt, as the launcher writes it.

    Attributes:
        attempt: The attempt, from 0.
        at: When, in seconds since 1970 (UTC).
        phase: What begins now, an `AttemptPhase` or its value.
        since: When the job began; in its first event only.
        why: What happened, in words; empty if `phase` says all.
        step: The greatest step of the run that a worker of the attempt has reported; None at the start of an attempt.
        noticed: When the first failure that ended the attempt was noticed; None without one.
        code: What the launcher exits with; at the end of the last attempt only.

    Raises:
        ValueError: A value has another type or is unknown.
    """

    attempt: int
    at: float
    phase: AttemptPhase
    since: float | None = None
    why: str = ""
    step: int | None = None
    noticed: float | None = None
    code: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "phase", AttemptPhase(self.phase))
        _check_times(self.at, *(time for time in (self.since, self.noticed) if time is not None))
        _check_counts(self.attempt, self.step or 0, self.code or 0)
        if not isinstance(self.why, str):
            raise ValueError("expected words for what happened")


LedgerEntry = LedgerInterval | LedgerEvent

_WRITERS: Mapping[type[LedgerEntry], str] = {LedgerInterval: "chief", LedgerEvent: "launcher"}
_KINDS = frozenset(TimeKind)
_MOST = 1e11
"""Seconds: the year 5138, which `datetime` can still represent."""
_MOST_LINE_BYTES = 1 << 20
_MOST_FURTHER_BYTES = 4 << 20


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger.

    Attributes:
        entries: In the order in which they were written.
        damaged: Lines that could not be read, such as one that a kill has left incomplete.
    """

    entries: tuple[LedgerEntry, ...]
    damaged: int = 0


def append_entry(file: Path, entry: LedgerEntry) -> None:
    """Adds a line.

    Raises:
        RunDirError: The disk is full, or the file cannot be written.
    """
    line = (json.dumps({"who": _WRITERS[type(entry)], **entry.to_dict()}) + "\n").encode()
    try:
        # The system appends: no line of one process ends up inside a line of the other.
        with open_to_append(file) as ledger:
            size = os.fstat(ledger.fileno()).st_size
            if size and os.pread(ledger.fileno(), 1, size - 1) != b"\n":
                line = b"\n" + line
            if ledger.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    except OSError as error:
        raise write_error(file, error) from error


def read_ledger(file: Path) -> Ledger:
    """Reads all lines that are whole.

    Raises:
        RunDirError: There is no such file, or it cannot be read.
    """
    entries = list(scan_ledger(file))
    whole = tuple(entry for entry in entries if entry is not None)
    return Ledger(whole, len(entries) - len(whole))


def scan_ledger(file: Path) -> Iterator[LedgerEntry | None]:
    """The lines one after the other, for a ledger of whatever length; None for one that cannot be read.

    Raises:
        RunDirError: There is no such file, or it cannot be read.
    """
    try:
        with open_regular(file) as content:
            for line in iter(lambda: content.readline(_MOST_LINE_BYTES), b""):
                if line.strip():
                    yield _entry(line)
    except FileNotFoundError:
        raise RunDirError(
            f"There is no ledger {file}. Expected the run directory of a run whose workers have started, on the "
            "chief's machine. Received: one without ledger.jsonl. Give that directory."
        ) from None
    except OSError as error:
        raise RunDirError(f"The ledger {file} cannot be read: {error}.") from error


def read_further(file: Path, place: int) -> tuple[list[LedgerEntry], int]:
    """The entries that were added since the last call, for who follows a ledger while it grows.

    Args:
        place: What the last call returned, in bytes; 0 at first.

    Returns:
        The entries that can be read, and the place behind the last whole line. Nothing where there is no ledger yet.

    Raises:
        RunDirError: It cannot be read.
    """
    try:
        with open_regular(file) as content:
            content.seek(place)
            added = content.read(_MOST_FURTHER_BYTES)
    except FileNotFoundError:
        return [], place
    except OSError as error:
        raise RunDirError(f"The ledger {file} cannot be read: {error}.") from error
    whole = added.rfind(b"\n") + 1
    if not whole and len(added) == _MOST_FURTHER_BYTES:
        return [], place + len(added)  # no line of a ledger is as long
    entries = [_entry(line) for line in added[:whole].splitlines() if line.strip()]
    return [entry for entry in entries if entry is not None], place + whole


def _entry(line: bytes) -> LedgerEntry | None:
    """The entry of a line; None if it is incomplete, or of a later version."""
    try:
        content: Any = bounded_json.parse(line)
        who = content.pop("who")
        kind = next(kind for kind, name in _WRITERS.items() if name == who)
    except (ValueError, KeyError, TypeError, StopIteration, AttributeError):
        return None
    try:
        return kind(**content)
    except (ValueError, TypeError):
        return _tolerated(kind, content)


def _tolerated(kind: type[LedgerEntry], content: Any) -> LedgerEntry | None:
    """The entry without the fields that a later version has added."""
    try:
        return kind.from_dict(content)
    except RunDirError:
        return None


def _check_times(*values: float) -> None:
    # Compared, not converted: an integer may be beyond every float.
    if not all(isinstance(value, int | float) and -_MOST < value < _MOST for value in values):
        raise ValueError("expected seconds")


def _check_counts(*values: int) -> None:
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise ValueError(f"expected counts. Received: {values}")
