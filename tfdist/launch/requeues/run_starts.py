"""The starts of a run, read from the ledger and the resumes of its directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfdist import bounded_json
from tfdist.launch.requeues.requeue_policy import RunStart
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import LedgerEntry, LedgerEvent, LedgerInterval, read_further
from tfdist.rundir.regular_files import open_regular

_MOST_BYTES = 4 << 20
"""Of the end of each file: many more starts than a run can make without progress."""


def read_starts(run: RunDir) -> tuple[RunStart, ...]:
    """The starts of a run in their order, the one that runs being the last; none where there is no ledger.

    Raises:
        RunDirError: The ledger cannot be read.
    """
    entries, _ = read_further(run.ledger_file, max(0, _size(run.ledger_file) - _MOST_BYTES))
    return starts_of(entries, resumed_steps(run.resumes_file))


def is_saved(run: RunDir) -> bool:
    """Returns whether tfdist saves checkpoints of the run, as far as its directory tells."""
    return run.checkpoints_dir.is_dir() or run.resumes_file.is_file()


def starts_of(entries: Iterable[LedgerEntry], resumed: Mapping[int, int]) -> tuple[RunStart, ...]:
    """The starts that a ledger tells of.

    Args:
        entries: Of the ledger, in their order.
        resumed: Attempt -> the step that it resumed after.
    """
    starts: list[RunStart] = []
    begun = 0.0
    for entry in entries:
        if not starts or (isinstance(entry, LedgerEvent) and entry.since is not None):
            # The first event of a start has a time; the end of a long ledger may begin in the middle of one.
            starts.append(RunStart(None))
            begun = entry.at if entry.since is None else entry.since
        starts[-1] = _with(starts[-1], entry, begun, resumed.get(entry.attempt, 0))
    return tuple(starts)


def _with(start: RunStart, entry: LedgerEntry, begun: float, resumed: int) -> RunStart:
    start = dataclasses.replace(
        start,
        step=max(start.step, entry.step or 0),
        # A start has several attempts where it restarts workers that failed; its first one tells what it found.
        resumed=start.resumed or resumed,
        seconds=max(start.seconds, entry.at - begun),
    )
    if isinstance(entry, LedgerInterval):
        return dataclasses.replace(start, has_trained=start.has_trained or entry.steps > 0)
    return dataclasses.replace(start, code=entry.code)


def resumed_steps(file: Path) -> dict[int, int]:
    """Attempt -> the step that it resumed after, the greatest where it resumed several times."""
    resumed: dict[int, int] = {}
    for line in _end_of(file).splitlines():
        try:
            content = bounded_json.parse(line)
            attempt, step = content["attempt"], content["total"]
        except (ValueError, KeyError, TypeError):
            continue
        if type(attempt) is int and type(step) is int:
            resumed[attempt] = max(step, resumed.get(attempt, 0))
    return resumed


def _end_of(file: Path) -> bytes:
    try:
        with open_regular(file) as content:
            content.seek(max(0, _size(file) - _MOST_BYTES))
            return content.read(_MOST_BYTES)
    except OSError:
        return b""


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
