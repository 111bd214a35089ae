"""Writer of TensorBoard event files of scalars; TensorFlow's own needs the tensorboard package."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf

from tfdist.rundir import atomic_files


class EventFile:
    """Appends scalars to one event file of a directory; TensorBoard shows each directory as a run.

    Args:
        directory: Created when it is absent.

    Raises:
        RunDirError: The file cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        # Unique among the writers of this second, also in this process.
        writer = f"{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._path = directory / f"events.out.tfevents.{int(time.time())}.{writer}"
        with _writing(self._path):
            directory.mkdir(parents=True, exist_ok=True)
            # As bytes: TensorFlow takes a str for UTF-8, whatever the locale of this process is.
            self._writer = tf.io.TFRecordWriter(os.fsencode(self._path))
        self._append(file_version="brain.Event:2")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of one step, tag -> value, and flushes. Raises `RunDirError` when it cannot."""
        scalars = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._append(step=step, summary=tf.compat.v1.Summary(value=scalars))

    def close(self) -> None:
        """Closes the file. Raises `RunDirError` when the rest cannot be written."""
        with _writing(self._path):
            self._writer.close()

    def _append(self, **fields: object) -> None:
        with _writing(self._path):
            self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **fields).SerializeToString())
            self._writer.flush()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise atomic_files.write_error(path, error) from error
