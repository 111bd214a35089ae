"""Files of a `fit`'s CSVLoggers, which a resumed `fit` appends to.

Keras would replace them. They lose only the rows of epochs that are trained again: those that a kill left of an epoch
whose checkpoint it prevented.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

import keras

from tfdist.rundir.regular_files import open_regular

_MOST_DIGITS = 18
"""Of an epoch; Python refuses to read numbers of thousands of digits."""

_log = logging.getLogger("tfdist")


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
