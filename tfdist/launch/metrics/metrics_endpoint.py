"""The endpoint of a job's metrics, as its launcher opens it: nothing at all without `--metrics-port`.

Reader of what the chief writes into the run directory: what its time was spent on, and the metrics of its epochs.

A thread of its own reads every few seconds, so that neither the launcher nor a scrape waits for a disk.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from tfdist.errors import RunDirError, UsageError
from tfdist.launch.metrics.run_metrics import RunMetrics, families
from tfdist.launch.run_dir.epoch_metrics import last_metrics
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import LedgerInterval, read_further

if TYPE_CHECKING:
    from tfdist.launch.metrics.metrics_server import MetricsServer

SECONDS = 2.0
"""Between two readings. The chief writes its ledger every 5 s at first."""


class MetricsEndpoint:
    """A context manager that has the port from the moment it is entered.

    Args:
        address: Where to listen: an IP address of this machine.
        port: The port; None serves nothing.

    Raises:
        UsageError: When entered: prometheus-client is not installed, or the address cannot be listened on.
        PortTakenError: When entered: somebody else has the port.
    """

    def __init__(self, address: str, port: int | None, metrics: RunMetrics) -> None:
        self._address = address
        self._port = port
        self._metrics = metrics
        self._server: MetricsServer | None = None
        self._reader: RunDirReader | None = None

    @property
    def metrics(self) -> RunMetrics:
        """The metrics that are served, which the launcher keeps up to date."""
        return self._metrics

    @property
    def url(self) -> str:
        """The address of the metrics; empty where nothing is served."""
        return "" if self._server is None else self._server.url

    def __enter__(self) -> MetricsEndpoint:
        if self._port is None:
            return self
        if importlib.util.find_spec("prometheus_client") is None:
            raise UsageError(
                "--metrics-port needs the package prometheus-client, which is not installed. Expected it where tfdist "
                "is installed. Install it (pip install 'tfdist[prometheus]'), or leave --metrics-port out."
            )
        # Imported here: most launchers serve nothing.
        from tfdist.launch.metrics.metrics_server import MetricsServer

        self._server = MetricsServer(self._address, self._port, lambda: families(self._metrics.facts))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._server is not None:
            self._server.close()

    def start(self) -> None:
        """Answers from now on. Threads begin here: a launcher with more than one may enter no network of its own."""
        if self._server is not None:
            self._server.start()

    def follow(self, run: RunDir, *, has_chief: bool) -> None:
        """Serves a run's directory from now on; on the chief's host also what the chief writes into it."""
        self._metrics.note(run_dir=str(run))
        if self._server is not None and has_chief:
            self._reader = RunDirReader(run, self._metrics)


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
