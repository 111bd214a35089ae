"""Requeue policy: whether a job that is terminated may be started again by its scheduler. Decides without effects.

Schedulers put a job back into their queue when it ends with 143, as SIGTERM ends it: Slurm by `RequeueExit=143`,
Kubernetes by a `podFailurePolicy`. A job that is always stopped before its first step, by a time limit that is too
short, would come back for ever. So only starts that gain something are let back without end.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.launch.peers.messages import Stop
from tfdist.text import format_count

MAX_REQUEUES = 3
"""The number of times that a run may be requeued without progress, unless `--max-requeues` says otherwise."""
REQUEUED = 128 + signal.SIGTERM
"""The exit code with which schedulers requeue a job."""
NOT_REQUEUED = 4


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
