"""Options of a script's checkpoints, from `tfdist.callbacks` or from how the script was started."""

from __future__ import annotations

import math
import types
from dataclasses import dataclass
from pathlib import Path

import keras

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_options import CheckpointInterval
from tfdist.rundir import RunDir
from tfdist.rundir.run_dir_creation import Resume
from tfdist.text import safe_repr
from tfdist.training.run_record_callback import RunRecordCallback

EVERY_MINUTES = 10.0
"""Between two checkpoints of a script that does not say."""

KEEP = 3


@dataclass(frozen=True)
class CheckpointOptions:
    """The options by which the checkpoints of a `fit` are made.

    Attributes:
        run: The directory with the folder of checkpoints.
        every_steps: After each multiple of so many steps of the `fit`; None for never.
        every_minutes: When the last one is so old; None for never.
        keep: How many are kept.
        resume: Whether a `fit` resumes from a checkpoint in the directory: if there is one, in any case, or never.
        overwrite: Whether checkpoints of an earlier training in the directory may go.
        is_asked_for: Whether the script itself asks for checkpoints.
        is_restart: Whether it resumes only because its job was restarted: checkpoints of another job in the directory
            are an earlier training's, as they were at the job's first start.

    Raises:
        UsageError: A number is not positive, or not whole where it must be, or `resume` is none of the three.
    """

    run: RunDir
    every_steps: int | None = None
    every_minutes: float | None = EVERY_MINUTES
    keep: int = KEEP
    resume: Resume = "never"
    overwrite: bool = False
    is_asked_for: bool = False
    is_restart: bool = False

    def __post_init__(self) -> None:
        for name in ("every_steps", "keep"):
            value = getattr(self, name)
            if not (value is None and name == "every_steps") and not (_is_number(value, int) and value > 0):
                raise UsageError(f"{name}: expected a whole number above 0. Received: {safe_repr(value)}")
        minutes = self.every_minutes
        if minutes is not None and not (_is_number(minutes, int | float) and 0 < minutes < math.inf):
            raise UsageError(f"every_minutes: expected a number above 0, or None. Received: {safe_repr(minutes)}")
        if self.resume not in ("auto", "must", "never"):
            raise UsageError(f"resume must be auto, must or never. Received: {safe_repr(self.resume)}")

    def folder(self, fit: int) -> Path:
        """Returns where the checkpoints of the `fit` number `fit` of the directory lie, counted from 0."""
        folder = self.run.checkpoints_dir
        return folder / f"fit-{fit + 1}" if fit else folder


def _is_number(value: object, kind: type | types.UnionType) -> bool:
    """True and False are integers for Python, but not for people."""
    return isinstance(value, kind) and not isinstance(value, bool)


def wanted_resume(assignment: Assignment) -> Resume:
    """Returns what `--resume` asks for; a restart of a group resumes by itself."""
    return "auto" if is_restart(assignment) else assignment.resume


def is_restart(assignment: Assignment) -> bool:
    """Returns whether a worker resumes only because its group was restarted."""
    return assignment.resume == "never" and assignment.attempt > 0


def is_verified(assignment: Assignment | None) -> bool:
    """Returns whether a worker is one of `tfdist verify` or of a rehearsal, which must not touch what the user's runs
    left."""
    return assignment is not None and any((assignment.recording, assignment.trace, assignment.rehearsal))


def options_of_start(assignment: Assignment | None) -> CheckpointOptions | None:
    """The options that the start of a script asks for: checkpoints where it may have to resume, else None."""
    if assignment is None or assignment.target_kind in ("config", "inference") or assignment.recording is not None:
        return None
    resume, every = wanted_resume(assignment), assignment.checkpoint_every
    if resume == "never" and not assignment.max_restarts and every is None:
        return None
    interval = CheckpointInterval(None, EVERY_MINUTES) if every is None else CheckpointInterval.parse(every)
    return CheckpointOptions(
        RunDir(Path(assignment.run_dir)),
        interval.steps,
        interval.minutes,
        resume=resume,
        is_restart=is_restart(assignment),
    )


class CheckpointRequest(keras.callbacks.Callback):
    """Asks, among the callbacks of a `fit`, for its checkpoints; does nothing itself.

    Args:
        options: How they are made.
        record: Keeps the record of the `fit`; None on a worker that keeps none.
    """

    async_safe = True
    ignores_batches = True

    def __init__(self, options: CheckpointOptions, record: RunRecordCallback | None) -> None:
        super().__init__()
        self.options = options
        self.record = record
