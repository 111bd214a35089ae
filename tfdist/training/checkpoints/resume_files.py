"""Files of resumes: the log of those of a run, and what CSVLoggers wrote, which a resumed `fit` appends to.

Keras would replace them. They lose only the rows of epochs that are trained again: those that a kill left of an epoch
whose checkpoint it prevented.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import keras

from tfdist.checkpoint import CheckpointSummary
from tfdist.errors import RunDirError
from tfdist.launch.worker.kernel_choice import NAMES
from tfdist.rundir import RunDir, atomic_files
from tfdist.rundir.regular_files import open_regular
from tfdist.text import format_count

_MOST_DIGITS = 18
"""Of an epoch; Python refuses to read numbers of thousands of digits."""



def append(callbacks: Iterable[Any]) -> list[keras.callbacks.CSVLogger]:
    """Makes those loggers append that would replace their files.

    Returns:
        Those loggers.
    """
    replacing = [logger for logger in _loggers(callbacks) if not logger.append]
    for logger in replacing:
        logger.append = True
    return replacing


def sizes(callbacks: Iterable[Any]) -> list[int | None]:
    """The size in bytes of each logger's file; None where there is none on this machine."""
    return [_size(logger.filename) for logger in _loggers(callbacks)]


def cut(callbacks: Iterable[Any], saved_sizes: Sequence[int | None], epoch: int) -> None:
    """Cuts the rows of `epoch` and later ones off the ends of files that the loggers have open to append.

    Args:
        callbacks: Those of the `fit`, in the order in which `sizes` had them.
        saved_sizes: What `sizes` returned.
        epoch: At which the training resumes. A file with anything else beyond its size is left as it is.
    """
    for logger, size in zip(_loggers(callbacks), saved_sizes, strict=False):
        if size is not None:
            try:
                _cut(logger, size, epoch)
            except OSError as error:
                _log.warning(
                    "%s may have the rows of epoch %d twice: it could not be read and shortened: %s",
                    logger.filename, epoch + 1, error,
                )  # fmt: skip


def _loggers(callbacks: Iterable[Any]) -> list[keras.callbacks.CSVLogger]:
    return [callback for callback in callbacks if isinstance(callback, keras.callbacks.CSVLogger)]


def _size(file: str) -> int | None:
    try:
        return os.stat(file).st_size
    except OSError:
        return None  # not made yet, or on another file system


def _cut(logger: keras.callbacks.CSVLogger, size: int, epoch: int) -> None:
    with open_regular(logger.filename, follows_link=True) as file:
        file.seek(size)
        beyond = file.read()
    if beyond and _is_from(epoch, beyond, logger.sep, has_header=size == 0):
        os.truncate(logger.filename, size)
        # It had looked whether the file is empty before.
        logger.append_header = logger.append_header or size == 0


def _is_from(epoch: int, rows: bytes, separator: str, *, has_header: bool) -> bool:
    """Returns whether all `rows` are of `epoch` or later; an incomplete last one may be of any."""
    lines = rows.decode(errors="replace").splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        lines.pop()
    epochs = [row.split(separator, 1)[0] for row in lines[has_header:]]
    return all(text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) >= epoch for text in epochs)


_MOST_BYTES = 16 << 20
"""More than a hundred thousand resumes take."""

_log = logging.getLogger("tfdist")


def note_resume(
    run: RunDir, resumed: CheckpointSummary, *, workers: int, replicas: int, attempt: int, fit: int = 0
) -> None:
    """Adds a line to a run's log of its resumes; on the chief. A full disk costs only the line.

    Args:
        run: The run directory.
        resumed: The checkpoint that it resumes from.
        workers: How many train from now on.
        replicas: How many they have.
        attempt: Starts of the run before this one.
        fit: Which `fit` of a script, from 0.
    """
    line = {
        "time": time.time(),
        "attempt": attempt,
        "fit": fit,
        "epoch": resumed.epoch,
        "step": resumed.step,
        "total": resumed.total,
        "workers": workers,
        "replicas": replicas,
        "workers_before": resumed.workers,
        "replicas_before": resumed.replicas,
    }
    try:
        atomic_files.write_text(run.resumes_file, _before(run) + json.dumps(line) + "\n", durable=False)
    except (RunDirError, OSError, ValueError) as error:
        _log.warning("%s misses a resume: %s", run.resumes_file, error)


def warn_of_other_kernels(resumed: CheckpointSummary, kernels: str) -> None:
    """Warns where a training computes by other kernels than the one that it resumes; on the chief.

    Args:
        resumed: The checkpoint that it resumes from.
        kernels: Those by which it computes now, as `--kernels` calls them; empty on GPUs.
    """
    before = resumed.kernels
    if kernels and before in NAMES and before != kernels:
        _log.warning(
            "The checkpoint was made with %s, and this run computes with %s: from here on it equals a run that was "
            "never interrupted up to rounding, and not to the bit. For that resume with --kernels %s.",
            NAMES[before],
            NAMES[kernels],
            before,
        )


def warn_of_another_teacher(resumed: CheckpointSummary, teacher: str) -> None:
    """Warns where a training learns from another teacher than the one that it resumes; on the chief.

    Args:
        resumed: The checkpoint that it resumes from.
        teacher: That of `fit.distill` now, as `CheckpointSummary.teacher` has it.
    """
    if teacher and resumed.teacher and teacher != resumed.teacher:
        _log.warning(
            "fit.distill: the teacher is another one than when the checkpoint was made (its file has changed, or "
            "another checkpoint of its run is taken). This run learns from it from here on; for what an untouched run "
            "gives, resume with the teacher that it began with."
        )


def _before(run: RunDir) -> str:
    """The present lines; a file that cannot be read must not be replaced."""
    try:
        with open_regular(run.resumes_file) as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return ""
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
    return content.decode()


def place_of(resumed: CheckpointSummary) -> str:
    """Returns where a training resumes, in words: `after step 30 (epoch 3, 6 batches done)`."""
    where = f"epoch {resumed.epoch + 1}, {resumed.step:,} batches" if resumed.step else f"epoch {resumed.epoch}"
    return f"after step {resumed.total:,} ({where} done)"


def change_of(resumed: CheckpointSummary, replicas: int) -> str:
    """Returns what changed since a checkpoint was made, for the line that says where a training resumes; mostly
    nothing."""
    return "" if resumed.replicas == replicas else f", which was on {format_count(resumed.replicas, 'replica')}"
