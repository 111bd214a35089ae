"""The files of a `fit`'s CSVLoggers, with which another goes on.

Keras would begin them anew. They are appended to, without the rows of epochs that are trained again: what a kill has
left of an epoch whose checkpoint it prevented.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras

_log = logging.getLogger("tfdist")


def append(callbacks: Iterable[Any]) -> list[keras.callbacks.CSVLogger]:
    """Makes the loggers append that would begin their files anew.

    Returns:
        Those loggers.
    """
    begin_anew = [logger for logger in _loggers(callbacks) if not logger.append]
    for logger in begin_anew:
        logger.append = True
    return begin_anew


def sizes(callbacks: Iterable[Any]) -> list[int | None]:
    """The size in bytes of each logger's file; None where there is none on this machine."""
    return [_size(logger.filename) for logger in _loggers(callbacks)]


def cut(callbacks: Iterable[Any], kept: Sequence[int | None], epoch: int) -> None:
    """Takes off the ends of files, which the loggers have open to append, what is of `epoch` and those after it.

    Args:
        callbacks: Those of the `fit`, in the order in which `sizes` had them.
        kept: What `sizes` returned.
        epoch: With which the training goes on. A file with anything else beyond its size is left as it is.
    """
    for logger, size in zip(_loggers(callbacks), kept, strict=False):
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
    with Path(logger.filename).open("rb") as file:
        file.seek(size)
        beyond = file.read()
    if beyond and _is_from(epoch, beyond, logger.sep, has_header=size == 0):
        os.truncate(logger.filename, size)
        # It had looked whether the file is empty before.
        logger.append_header = logger.append_header or size == 0


def _is_from(epoch: int, rows: bytes, separator: str, *, has_header: bool) -> bool:
    """Whether all `rows` are of `epoch` or later; a last one that is not whole may be of anything."""
    whole = rows.decode(errors="replace").splitlines(keepends=True)
    if not whole[-1].endswith("\n"):
        whole.pop()
    epochs = [row.split(separator, 1)[0] for row in whole[has_header:]]
    return all(text.isdecimal() and int(text) >= epoch for text in epochs)
