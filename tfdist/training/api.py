"""The functions that a script calls. The first call of any of them sets up this process's devices and strategy."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.rundir import RunDir
from tfdist.rundir.atomic_files import write_error
from tfdist.rundir.run_dir_creation import Resume
from tfdist.runtime.strategy_settings import BatchNorm, settings_of
from tfdist.text import safe_repr
from tfdist.training.checkpoints.checkpoint_options import (
    EVERY_MINUTES,
    KEEP,
    CheckpointOptions,
    CheckpointRequest,
    is_restart,
    is_verified,
    wanted_resume,
)
from tfdist.training.run_record_callback import RunRecordCallback
from tfdist.training.session import current_session as session
from tfdist.url_schemes import CHECKPOINTS_INSTEAD, fault_as_local


def strategy(*, batch_norm: BatchNorm | None = None, gather: bool | None = None) -> tf.distribute.Strategy:
    """The strategy of this process: MirroredStrategy for several devices, MultiWorkerMirroredStrategy for several
    workers, TensorFlow's default one for a single device.

    Call it before TensorFlow touches a device.

    Args:
        batch_norm: Whose statistics BatchNormalization takes in the models that train from now on: `"synchronized"`,
            those of the global batch, or `"replica"`, each replica its own; the same on all workers. None for what
            `tfdist train --batch-norm` says, or an earlier call; without either they are synchronized.
        gather: Whether losses and layers that take a sample by the others of its batch are called with the samples of
            all replicas without being declared as such (`tfdist.gathered`); the same on all workers. None for what an
            earlier call says; without one they are.

    Raises:
        UsageError: What `tfdist train` or TF_CONFIG asks for does not fit this machine, or `batch_norm` is neither.
    """
    if batch_norm not in (None, *get_args(BatchNorm)):
        raise UsageError(
            f"tfdist.strategy(batch_norm=...) is one of {', '.join(get_args(BatchNorm))}. Received: "
            f"{safe_repr(batch_norm)}"
        )
    found = session.current().strategy
    if batch_norm is not None:
        settings_of(found).batch_norm = batch_norm
    if gather is not None:
        settings_of(found).gather = gather
    return found


def callbacks(
    run_dir: str | Path | None = None,
    *,
    every_steps: int | None = None,
    every_minutes: float | None = EVERY_MINUTES,
    keep: int = KEEP,
    resume: Resume | None = None,
    overwrite: bool = False,
) -> list[keras.callbacks.Callback]:
    """Callbacks that keep the record and the checkpoints of a script's `fit` as `tfdist train CONFIG` keeps them.

    Give them to `fit` on every worker. Checkpoints are made at the end of every epoch, when the job is stopped
    (SIGTERM), and as `every_steps` and `every_minutes` say; if `resume` says so, `fit` resumes from the last one.
    Under `tfdist verify` everything is written to the run directory of the verification, whatever `run_dir` says.

    Args:
        run_dir: Where the chief writes; created when it is absent. None for the run directory of `tfdist train`.
            `metrics.jsonl`, `history.json` and `events/` of an earlier `fit` into the same directory are replaced.
        every_steps: A checkpoint after each multiple of so many steps of this `fit`; None for none.
        every_minutes: A checkpoint when the last one is so old; None for none.
        keep: How many checkpoints of a `fit` are kept.
        resume: `"auto"` resumes from a checkpoint if there is one, `"must"` fails without, `"never"` begins anew; None
            for what `tfdist train --resume` says (`"auto"` in a restart, `"never"` without `tfdist train`).
        overwrite: Whether a `fit` that begins anew may replace the checkpoints of an earlier training.

    Raises:
        UsageError: A number is not positive; `run_dir` is a URL; or none is given and `tfdist train` did not start this
            process.
        RunDirError: The chief cannot make the directory.
    """
    here, assignment = session.current(), Assignment.from_environ()
    own = None if assignment is None else RunDir(Path(assignment.run_dir))
    if run_dir is None and own is None:
        raise UsageError(
            "tfdist.callbacks() without a directory writes into that of `tfdist train`, which did not start this "
            "process. Give it one: tfdist.callbacks('runs/a')."
        )
    fault = None if run_dir is None else fault_as_local(run_dir, "run_dir", CHECKPOINTS_INSTEAD)
    if fault is not None:
        raise UsageError(fault)
    run = own if run_dir is None or is_verified(assignment) else RunDir(Path(run_dir))
    assert run is not None
    restarted = resume is None and assignment is not None and is_restart(assignment)
    if resume is None:
        resume = "never" if assignment is None else wanted_resume(assignment)
    options = CheckpointOptions(
        run, every_steps, every_minutes, keep, resume, overwrite, is_asked_for=True, is_restart=restarted
    )
    record = None
    if here.is_chief:
        _make(run)
        record = RunRecordCallback(run)
    return [*([] if record is None else [record]), CheckpointRequest(options, record)]


def _make(run: RunDir) -> None:
    try:
        run.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(run.path, error) from error


def worker_index() -> int:
    """This worker's index in the cluster; 0 is the chief."""
    return session.current().index


def num_workers() -> int:
    """Returns how many workers the cluster has."""
    return session.current().num_workers


def num_replicas() -> int:
    """Returns how many devices train in sync, over all workers."""
    return session.current().strategy.num_replicas_in_sync


def is_chief() -> bool:
    """Returns whether this worker is the chief, which writes the files of a run and prints."""
    return session.current().is_chief
