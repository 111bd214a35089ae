"""Reader of what the chief writes into the run directory: what its time was spent on, and the metrics of its epochs.

A thread of its own reads every few seconds, so that neither the launcher nor a scrape waits for a disk.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Mapping

from tfdist.errors import RunDirError
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.launch.run_dir.epoch_metrics import last_metrics
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import LedgerInterval, read_further

SECONDS = 2.0
"""Between two readings. The chief writes its ledger every 5 s at first."""


class RunDirReader:
    """Reads one run's directory until it is closed.

    Args:
        run: The directory of the chief's host.
        metrics: Told what was read.
        seconds: Between two readings.
    """

    def __init__(self, run: RunDir, metrics: RunMetrics, seconds: float = SECONDS) -> None:
        self._run = run
        self._metrics = metrics
        self._pause = seconds
        self._disk = BoundedDisk(run.path)
        self._place = 0
        self._seconds: collections.Counter[str] = collections.Counter()
        self._closed = threading.Event()
        threading.Thread(target=self._follow, name="tfdist-metrics-reader", daemon=True).start()

    def close(self) -> None:
        """Reads no more; a reading that has begun is not waited for."""
        self._closed.set()

    def read(self) -> None:
        """Reads what is new. While the disk cannot be read, what was read before stays."""
        with contextlib.suppress(RunDirError):
            seconds, epoch_metrics = self._disk.call(self._read)
            self._metrics.note(seconds=seconds, epoch_metrics=epoch_metrics)

    def _follow(self) -> None:
        while not self._closed.is_set():
            self.read()
            self._closed.wait(self._pause)

    def _read(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        entries, self._place = read_further(self._run.ledger_file, self._place)
        for entry in entries:
            if isinstance(entry, LedgerInterval):
                self._seconds.update(entry.seconds)
        last = last_metrics(self._run.metrics_file)
        return dict(self._seconds), {} if last is None else last.values
