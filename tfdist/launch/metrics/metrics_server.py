"""Server of the metrics: answers Prometheus over HTTP, in threads of its own.

A scrape reads what is in memory and waits for nobody; whoever connects and sends nothing, or reads nothing, is sent
away. prometheus-client, an extra, writes the answers.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tfdist.cluster.ports import port_owner
from tfdist.errors import PortTakenError, UsageError
from tfdist.launch.metrics.run_metrics import Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MOST_CALLERS = 16
"""Whose scrapes are answered at the same time; further ones are hung up on."""

CALL_SECONDS = 5.0
"""Seconds that one call may take in all."""

_POLL_SECONDS = 0.1


class MetricsServer:
    """Has the port from the moment it is made, and answers between `start` and `close`.

    Args:
        address: An IP address of this machine.
        port: A port, from 1; 0 takes any.
        read: The metrics as they are now; called in several threads, and returns at once.

    Raises:
        PortTakenError: Somebody else has the port.
        UsageError: `address` is no address of this machine, or this user may not have the port.
    """

    def __init__(
        self, address: str, port: int, read: Callable[[], Iterable[Family]], seconds: float = CALL_SECONDS
    ) -> None:
        # Imported here: this module can be read without the extra.
        from prometheus_client import CollectorRegistry, MetricsHandler

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(read))
        handler = MetricsHandler.factory(registry)
        self._server = _bound(address, port, handler, seconds)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address of the metrics, such as `http://127.0.0.1:9400/metrics`."""
        host, port = self._server.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else str(host)}:{port}/metrics"

    def start(self) -> None:
        """Answers from now on; who has called before is answered, too."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="tfdist-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Frees the port."""
        if self._thread is not None:
            self._server.shutdown()
        self._server.server_close()


class _Families:
    """A collector, as prometheus-client calls it."""

    def __init__(self, read: Callable[[], Iterable[Family]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        answers = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        for family in self._read():
            answer = answers[family.kind](family.name, family.text, labels=family.labels)
            for labels, value in family.samples:
                answer.add_metric(labels, value)
            yield answer


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each caller, of whom there are a few at a time."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # those that a server of an hour ago had are no reason to refuse the port

    def __init__(self, family: socket.AddressFamily, place: tuple[str, int], handler: Any, seconds: float) -> None:
        self.address_family = family
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(MOST_CALLERS)
        super().__init__(place, handler)
        # A caller that has gone before it was accepted would block the only thread that accepts.
        self.socket.setblocking(False)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = threading.Timer(self._seconds, _hang_up, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A caller that hangs up, or was hung up on, is no error of the job.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _hang_up(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the call has just ended


def _bound(address: str, port: int, handler: Any, seconds: float) -> _Server:
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        raise UsageError(
            "--metrics-address must be an IP address of this machine: 127.0.0.1 for this machine alone, 0.0.0.0 for "
            f"every interface. Received: {address!r}"
        ) from None
    try:
        return _Server(socket.AF_INET6 if version == 6 else socket.AF_INET, (address, port), handler, seconds)
    except PermissionError:
        raise UsageError(
            f"--metrics-port {port} may not be used by this user. Expected a port from 1024 on. Received: {port}."
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            owner = port_owner(port) or "a process that cannot be named"
            raise PortTakenError(
                f"Port {port} of --metrics-port is taken by {owner}. Expected one that is free: every job on a machine "
                "needs its own. Choose another, or end what has it."
            ) from None
        raise UsageError(
            f"--metrics-address {address} cannot be listened on: {error.strerror or error}. Expected an IP address of "
            "this machine: 127.0.0.1 for this machine alone, 0.0.0.0 for every interface."
        ) from error
