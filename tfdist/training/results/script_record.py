"""The record of a script's `fit`s: metrics and history of all of them, one after another."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.training.run_record_callback import RunRecordCallback

_SHARE = 0.02
"""Of the time, what it may take to write the record."""


class ScriptRecordCallback(RunRecordCallback):
    """Keeps `metrics.jsonl`, `history.json` and `events/` of a script, in the same form as those of a config.

    Epochs are counted on from one `fit` to the next, and each line names its `fit`, from 1. Many short epochs are
    written together. A disk that does not answer ends no training: it is waited for once, and not for long.

    Args:
        run: The run directory, which exists.
    """

    def __init__(self, run: RunDir) -> None:
        super().__init__(run)
        self.fit = 0
        self._disk = BoundedDisk(run.path)
        self._next_write = 0.0
        self._is_behind = False

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._is_behind = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        super().on_epoch_end(self.epochs, logs)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Does nothing: the next `fit` goes on in the same files."""

    def keep(self, epoch: int, values: Mapping[str, float]) -> None:
        self._disk.call(lambda: super(ScriptRecordCallback, self).keep(epoch, values))

    def line(self, epoch: int, values: Mapping[str, float]) -> str:
        return json.dumps({"epoch": epoch, "fit": self.fit, "time": time.time(), **values}) + "\n"

    def write(self) -> None:
        begun = time.monotonic()
        self._is_behind = begun < self._next_write
        if not self._is_behind:
            super().write()
            ended = time.monotonic()
            self._next_write = ended + (ended - begun) / _SHARE

    def finish(self) -> None:
        """Writes what is not written yet.

        Raises:
            RunDirError: It cannot be written.
        """
        if self._is_behind:
            self._next_write = 0.0
            self._disk.call(self.write)
        self._disk.call(self._close_events)
