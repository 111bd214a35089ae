"""TensorBoard event files of scalars. TensorFlow writes them only where the tensorboard package is installed."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf


class EventFile:
    """Appends scalars to one event file of a directory; TensorBoard shows each directory as a run.

    Args:
        directory: Made when it is not there.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._writer = tf.io.TFRecordWriter(
            str(directory / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}")
        )
        self._append(file_version="brain.Event:2")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of one step, tag -> value, and flushes."""
        scalars = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._append(step=step, summary=tf.compat.v1.Summary(value=scalars))

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()

    def _append(self, **fields: object) -> None:
        self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()
