"""The endpoint of a job's metrics, as its launcher opens it: nothing at all without `--metrics-port`."""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import TYPE_CHECKING

from tfdist.errors import UsageError
from tfdist.launch.metrics.metric_families import families
from tfdist.launch.metrics.run_dir_reader import RunDirReader
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.rundir.layout import RunDir

if TYPE_CHECKING:
    from tfdist.launch.metrics.metrics_server import MetricsServer


class MetricsEndpoint:
    """A context manager that has the port from the moment it is entered.

    Args:
        address: Where to listen: an IP address of this machine.
        port: The port; None serves nothing.
        metrics: What is served.

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
        """What is served, which the launcher keeps up to date."""
        return self._metrics

    @property
    def url(self) -> str:
        """Where the metrics are; empty where nothing is served."""
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
