"""The callback that keeps a run's record on disk: metrics, history and TensorBoard's events.

Writer of TensorBoard event files of scalars; TensorFlow's own needs the tensorboard package.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import RunDirError
from tfdist.rundir import RunDir, atomic_files
from tfdist.training.metric_values import numbers

_log = logging.getLogger("tfdist")


class RunRecordCallback(keras.callbacks.Callback):
    """Writes `metrics.jsonl`, `history.json` and TensorBoard's `events/` at the end of every epoch.

    A full disk does not end the training: it is logged, and the record of the next epoch includes this one, except its
    events.

    Args:
        run: The run directory, which exists.
        state: What `state` was in the process whose training resumes; None where it begins.
        restore: Called before each record; makes the directory again if it was removed, and returns whether it was.
    """

    def __init__(
        self, run: RunDir, state: Mapping[str, Any] | None = None, restore: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self._run = run
        self._restore = restore
        self._history: dict[str, list[float]] = {}
        self._lines: list[str] = []
        self._events: dict[str, EventFile] = {}
        if state is not None:
            self.restore(state)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resumes the record of another process, from what `state` was there."""
        self._history = {name: list(values) for name, values in state["history"].items()}
        self._lines = list(state["lines"])

    @property
    def run(self) -> RunDir:
        """The run directory in which it is kept."""
        return self._run

    @property
    def history(self) -> dict[str, list[float]]:
        """Metric -> one float an epoch."""
        return self._history

    @property
    def epochs(self) -> int:
        """The epochs that have been trained."""
        return len(self._lines)

    @property
    def state(self) -> dict[str, Any]:
        """The state that another process needs to resume the record, in JSON's types."""
        return {"history": {name: list(values) for name, values in self._history.items()}, "lines": list(self._lines)}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        values = numbers(logs or {})
        for name, value in values.items():
            self._history.setdefault(name, []).append(value)
        self._lines.append(self.line(epoch, values))
        try:
            self.keep(epoch, values)
        except RunDirError as error:
            text = "The record of epoch %d is not written. The training continues without it. %s"
            _log.warning(text, epoch + 1, error)
            # TensorBoard reads a file up to a record that is cut short: the next epoch begins another file.
            self._close_events()

    def keep(self, epoch: int, values: Mapping[str, float]) -> None:
        """Writes the record up to an epoch, numbered from 0.

        Raises:
            RunDirError: It cannot be written.
        """
        if self._restore():
            self._close_events()
        self.write()
        self._write_events(epoch, values)

    def line(self, epoch: int, values: Mapping[str, float]) -> str:
        """The line of an epoch, numbered from 0."""
        return json.dumps({"epoch": epoch, "time": time.time(), **values}) + "\n"

    def write(self) -> None:
        """Writes metrics and history of all epochs so far.

        Raises:
            RunDirError: They cannot be written.
        """
        # Whole files, so that no reader ever meets half a line.
        atomic_files.write_text(self._run.metrics_file, "".join(self._lines), durable=False)
        atomic_files.write_json(self._run.history_file, self._history, durable=False)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        self._close_events()

    def _close_events(self) -> None:
        while self._events:
            # Everything was flushed when it was written, or its loss was logged.
            with contextlib.suppress(RunDirError):
                self._events.popitem()[1].close()

    def _write_events(self, epoch: int, values: Mapping[str, float]) -> None:
        """Under the directories and tags of `keras.callbacks.TensorBoard`, so that its users find their curves."""
        runs: dict[str, dict[str, float]] = {}
        for name, value in values.items():
            validation = name.startswith("val_")
            scalars = runs.setdefault("validation" if validation else "train", {})
            scalars[f"epoch_{name.removeprefix('val_')}"] = value
        for run, scalars in runs.items():
            if run not in self._events:
                self._events[run] = EventFile(self._run.events_dir / run)
            self._events[run].add(epoch, scalars)


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
