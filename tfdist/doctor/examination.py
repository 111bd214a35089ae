"""Examination by `tfdist doctor`: this machine, and with a worker list its connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tfdist.cluster.discover import discover
from tfdist.doctor.doctor_report import DoctorReport
from tfdist.doctor.local_checks import check_here
from tfdist.doctor.mesh.connection_checks import check_connections
from tfdist.doctor.mesh.link_measurement import Clocks

CLOCKS = Clocks(time.monotonic, time.time)
_IMPORT_SHARE = 0.5
"""Of the whole time, what asking TensorFlow may take when connections come after it."""
_LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class Doctor:
    """One examination.

    Attributes:
        workers: The whole cluster as host:port, comma-separated; None to check this machine alone.
        index: Which entry is this machine's; None for every entry that is an address of it.
        seconds: How long all of it may take.
    """

    workers: str | None = None
    index: int | None = None
    seconds: float = 60.0

    def examine(self, tell: Callable[[str], None]) -> DoctorReport:
        """Runs the checks.

        Args:
            tell: Called with progress messages.

        Raises:
            ClusterError: The list or the index cannot be used.
        """
        deadline = CLOCKS.steady() + self.seconds
        if self.workers is None and self.index is None:
            return DoctorReport(socket.gethostname(), tuple(check_here(None, self.seconds)))
        membership = discover(self.workers, self.index)
        checks = check_here(membership, self.seconds * _IMPORT_SHARE)
        left = max(deadline - CLOCKS.steady(), _LEAST_SECONDS)
        found = check_connections(membership, left, CLOCKS, tell)
        workers = () if membership.cluster is None else tuple(map(str, membership.cluster.workers))
        return DoctorReport(socket.gethostname(), (*checks, *found.checks), workers, found.pairs)
