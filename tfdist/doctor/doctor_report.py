"""Report of a doctor: everything that was found, and the exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tfdist.doctor.check_result import Check, CheckStatus, exit_code, worst
from tfdist.doctor.mesh.pair import Pair


@dataclass(frozen=True)
class DoctorReport:
    """Findings on one machine and its connections.

    Attributes:
        host: The machine.
        checks: The checks of this machine.
        workers: Index -> address of every worker; empty when connections were not asked for.
        pairs: Every connection that is known of, ordered.
    """

    host: str
    checks: tuple[Check, ...]
    workers: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return exit_code(one.code for one in self._all() if one.status is CheckStatus.FAIL)

    @property
    def status(self) -> CheckStatus:
        """The most serious outcome."""
        return worst(one.status for one in self._all())

    def count(self, status: CheckStatus) -> int:
        """Returns how many checks and connections have this outcome."""
        return sum(one.status is status for one in self._all())

    def _all(self) -> list[Check | Pair]:
        return [*self.checks, *self.pairs]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "host": self.host,
            "status": self.status.value,
            "exit_code": self.code,
            "checks": [{**asdict(check), "status": check.status.value} for check in self.checks],
            "workers": list(self.workers),
            "pairs": [pair.to_json() for pair in self.pairs],
        }
