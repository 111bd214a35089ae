"""Requeue policy: whether a job that is terminated may be started again by its scheduler.

Schedulers put a job back into their queue when it ends with 143, as SIGTERM ends it: Slurm by `RequeueExit=143`,
Kubernetes by a `podFailurePolicy`. A job that is always stopped before its first step, by a time limit that is too
short, would come back for ever. So only starts that gain something are let back without end.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist import bounded_json
from tfdist.launch.peers.messages import Stop
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import LedgerEntry, LedgerEvent, LedgerInterval, read_further
from tfdist.rundir.regular_files import open_regular
from tfdist.text import format_count

MAX_REQUEUES = 3
"""The number of times that a run may be requeued without progress, unless `--max-requeues` says otherwise."""

REQUEUED = 128 + signal.SIGTERM
"""The exit code with which schedulers requeue a job."""

NOT_REQUEUED = 4
_MOST_BYTES = 4 << 20
"""Of the end of each file: many more starts than a run can make without progress."""


@dataclass(frozen=True)
class RunStart:
    """One start of a run by `tfdist train`, as the run directory tells of it.

    Attributes:
        code: What the launcher exited with; None where it did not come to that, as when it was killed.
        step: The greatest step of the run that a worker has reached.
        resumed: The step that it resumed after; 0 where it began anew.
        has_trained: Whether a batch was trained.
        seconds: How long it lasted.
    """

    code: int | None
    step: int = 0
    resumed: int = 0
    has_trained: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class RequeuePolicy:
    """The limit on how often a run may be requeued without progress.

    Attributes:
        most: So often (`--max-requeues`).
        patience: Seconds after which a start in which no step was seen is taken for a training loop of a script's own,
            whose steps nobody sees.
    """

    most: int = MAX_REQUEUES
    patience: float = 1800.0

    def judge(self, stop: Stop, starts: Sequence[RunStart], *, is_saved: bool) -> Stop:
        """The stop as it is to be: with another exit code where the run was requeued too often.

        Args:
            stop: The stop of the start that is the last of `starts`.
            starts: All starts of the run in their order.
            is_saved: Whether tfdist saves checkpoints of the run; a script may save by itself, and counts its steps
                from 0 in every start.
        """
        if stop.code != REQUEUED:
            return stop
        idle = self.idle_starts(starts, is_saved=is_saved)
        if idle <= self.most:
            return stop
        step = max((start.step for start in starts), default=0)
        return Stop(NOT_REQUEUED, stop.why, self._advice(idle - 1, step))

    def idle_starts(self, starts: Sequence[RunStart], *, is_saved: bool) -> int:
        """Returns how many of the latest starts were terminated one after the other without any progress."""
        idle = best = resumed = 0
        for start in starts:
            if start.resumed > resumed or start.code not in (None, REQUEUED):
                # What the start before has done was kept; or somebody has ended the run in another way since.
                idle = 0
            if start.code == REQUEUED:
                idle = 0 if self._has_gained(start, best, is_saved) else idle + 1
            best, resumed = max(best, start.step), max(resumed, start.resumed)
        return idle

    def _has_gained(self, start: RunStart, best: int, is_saved: bool) -> bool:
        if start.step > best or (start.has_trained and not is_saved):
            return True
        return not start.has_trained and start.seconds > self.patience

    def _advice(self, requeues: int, step: int) -> str:
        before = "it was stopped before" if not requeues else f"it was requeued {_times(requeues)} without"
        gained = "its first step" if not step else f"a step beyond step {step:,}"
        before = before if requeues or not step else "it was stopped without"
        return (
            f"exit code {NOT_REQUEUED} and not {REQUEUED}, so that no scheduler starts it once more: {before} {gained} "
            f"(--max-requeues {self.most}). Give it more time until it is stopped, such as a longer time limit of the "
            "scheduler's, or less to do before its first step. The same command then goes on where it was."
        )


def _times(count: int) -> str:
    return "once" if count == 1 else format_count(count, "time")


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
