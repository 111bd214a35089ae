"""Start of a run: anew, at one of its checkpoints, or not at all because it has finished before."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy
from tfdist.checkpoint.checkpoint_manager import of_another_run
from tfdist.config import RunConfig
from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.order.epoch_span import START, EpochSpan, Position
from tfdist.rundir.state_records import completed_epochs
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback, Logs
from tfdist.training.checkpoints.checkpoint_options import is_restart, wanted_resume
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import announcer

_CALLBACKS, _STOPPED = "callbacks", "stopped"


class RunCheckpointCallback(CheckpointCallback):
    """Stands last among the callbacks of a run's `fit`, on every worker."""

    ignores_batches = True

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        if self._resumed is not None:
            self._restore_callbacks(self._resumed.record.get(_CALLBACKS, {}))

    def _whole_record(self) -> Mapping[str, Any]:
        return {**super()._whole_record(), _CALLBACKS: self._states, _STOPPED: self._is_stopped}


def was_stopped(summary: CheckpointSummary | None) -> bool:
    """Returns whether a callback had ended the training with the epoch of this checkpoint."""
    return summary is not None and bool(summary.record.get(_STOPPED))


_ORDER_FACTORS = {
    "shuffle": "data.train.shuffle",
    "shares": "the number of samples of each worker's share",
    "lanes": "the number of files of data.train that are read at the same time",
    "window": "the part of data.train.shuffle_buffer for each of these files",
}
"""The factors that the order of the samples depends on, in words for errors."""


@dataclass(frozen=True)
class RunStart:
    """The point at which a run begins.

    Attributes:
        checkpoints: The checkpoints of the run.
        resumed: The checkpoint it resumes from; None where it begins anew.
        path: The path of that checkpoint, on the chief's machine.
        is_done: Whether there is nothing to train.
    """

    checkpoints: CheckpointManager
    resumed: CheckpointSummary | None = None
    path: str = ""
    is_done: bool = False

    @property
    def position(self) -> Position:
        """The position of the first batch to train."""
        return START if self.resumed is None else self.resumed.position


def find_run_start(session: LaunchedSession, assignment: Assignment, config: RunConfig) -> RunStart:
    """Looks for a checkpoint as `--resume` says; all workers call it together.

    Raises:
        RunDirError: There is none and there must be, or it is of another training.
    """
    section = config.checkpoint
    folder = section.directory or session.run.checkpoints_dir
    checkpoints = CheckpointManager(
        folder,
        RetentionPolicy.of(section),
        session.strategy,
        when_busy=section.when_busy,
        restoring=session.restoring,
        claimed_by=assignment.job,
        is_elastic=assignment.is_elastic,
    )
    wanted = wanted_resume(assignment)
    if wanted == "never":
        checkpoints.check_none()
        return RunStart(checkpoints)
    if broadcast(session.is_chief and completed_epochs(session.run) >= config.fit.epochs, strategy=session.strategy):
        return RunStart(checkpoints, is_done=True)
    found = checkpoints.latest()
    if found is None:
        if wanted == "must":
            raise RunDirError(
                f"There is nothing to resume in the run directory {session.run}. Expected a complete "
                "checkpoint in it. Give the --run-dir of the run to resume, or begin a new one with --resume auto."
            )
        if session.is_chief and assignment.attempt:
            say = announcer(quiet=assignment.quiet, stream=sys.stderr)
            say(f"tfdist: no checkpoint yet in {checkpoints.folder}: the training begins anew")
        return RunStart(checkpoints)
    summary, path = found
    if is_restart(assignment) and summary.job != assignment.job:
        # The attempt before this one ended before it could find them.
        raise of_another_run(checkpoints.folder)
    check_same_order(summary, seed=session.seed, batch_size=config.data.batch_size)
    return RunStart(checkpoints, summary, path)


def check_same_order(
    summary: CheckpointSummary,
    *,
    seed: int | None = None,
    batch_size: int | None = None,
    samples: int | None = None,
    order: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Checks that global batches are those of the run to resume; None is not checked.

    Args:
        summary: The checkpoint's.
        seed: The run's.
        batch_size: Samples of a global batch.
        samples: Samples of an epoch.
        order: What else the order depends on, by name.

    Raises:
        RunDirError: They are not: some samples of the epoch would come twice, and others not at all.
    """
    for name, here, there in (
        ("seed", seed, summary.seed),
        ("data.batch_size", batch_size, summary.batch_size),
        ("the number of samples in data.train", samples, summary.samples),
        *((words, order.get(name), summary.order.get(name)) for name, words in _ORDER_FACTORS.items()),
        ("fit.steps_per_epoch", *(_steps_asked(facts) if order else None for facts in (order, summary.order))),
    ):
        if here is not None and there is not None and here != there:
            raise RunDirError(
                f"The checkpoint is of a run in which {name} was {there}. Expected the same, which decides the order "
                f"of the samples. Received: {here}. Resume with {there}, or choose another --run-dir."
            )


def _steps_asked(order: Mapping[str, Any]) -> int | str:
    steps: int | None = order.get("steps_per_epoch")
    return "null" if steps is None else steps


def epoch_span(config: RunConfig, samples: int) -> EpochSpan:
    """The global batches of an epoch of the training.

    Args:
        config: The run's.
        samples: Those of data.train.
    """
    return EpochSpan(samples, min(config.data.batch_size, samples), config.fit.steps_per_epoch)
