"""Report of `tfdist doctor`: everything that was found, and the exit code; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.doctor.check_result import Check, CheckStatus, exit_code, worst
from tfdist.doctor.mesh.pair import Pair
from tfdist.text import format_bytes, format_duration, table, wrap

_MOST_GOOD = 20
_NAMED = 4
_MARKS = {CheckStatus.OK: "ok", CheckStatus.WARN: "warn", CheckStatus.FAIL: "FAIL"}
_HEADINGS = ("from", "to", "address", "status", "round trip", "bandwidth", "clock")
_INDENT = 12


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


def render(report: DoctorReport) -> str:
    """The checks, the connections and the verdict."""
    blocks = ["\n".join((f"tfdist doctor on {report.host}", *_checks(report.checks)))]
    if report.pairs:
        blocks.append("\n".join(_connections(report)))
    counts = ", ".join(f"{report.count(status)} {status.value}" for status in CheckStatus if report.count(status))
    failed = [check.name for check in report.checks if check.status is CheckStatus.FAIL]
    failed += [f"{_sources(pair)} to {pair.target}" for pair in report.pairs if pair.status is CheckStatus.FAIL]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    named = f": {', '.join(failed[:_NAMED])}{more}" if failed else ""
    blocks.append(f"doctor: {counts}{named} (exit code {report.code})")
    return "\n\n".join(blocks)


def _checks(checks: Sequence[Check]) -> Iterator[str]:
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        head = f"  {_MARKS[check.status]:4}  {check.name:{width}}  "
        yield wrap(check.found, head)
        if check.advice:
            yield wrap(check.advice, f"{' ' * (len(head) - 3)}-> ")


def _connections(report: DoctorReport) -> Iterator[str]:
    count = len(report.workers)
    yield f"Connections of the {count} workers, each as the host that called found it (bandwidth is rough):"
    # Many good connections share one line; each bad one has lines of its own.
    good = [pair for pair in report.pairs if pair.status is CheckStatus.OK]
    shown = [pair for pair in report.pairs if pair.status is not CheckStatus.OK or len(good) <= _MOST_GOOD]
    heading, *lines = table([_HEADINGS, *(_row(pair, report.workers) for pair in shown)], "lllllll", indent="  ")
    if shown:
        yield heading
    for pair, line in zip(shown, lines, strict=True):
        yield line
        if pair.status is not CheckStatus.OK:
            yield wrap(pair.found, " " * _INDENT)
            yield wrap(pair.advice, f"{' ' * (_INDENT - 3)}-> ")
    if len(good) > _MOST_GOOD:
        yield f"  {_summary(good)}"
    yield from _untold(report)


def _sources(pair: Pair) -> str:
    return ",".join(map(str, pair.sources))


def _row(pair: Pair, workers: Sequence[str]) -> tuple[str, ...]:
    # A name in the list is shown with the address that it resolves to.
    listed = workers[pair.target]
    host = listed.rpartition(":")[0].strip("[]")
    address = f"{listed} ({pair.address})" if pair.address and pair.address != host else listed
    return (
        _sources(pair),
        str(pair.target),
        address,
        _MARKS[pair.status],
        "-" if pair.round_trip is None else format_duration(pair.round_trip),
        "-" if pair.bandwidth is None else _rate(pair.bandwidth),
        "-" if pair.offset is None else _ahead(pair.offset),
    )


def _summary(good: Sequence[Pair]) -> str:
    trips = sorted(pair.round_trip for pair in good if pair.round_trip is not None)
    rates = sorted(pair.bandwidth for pair in good if pair.bandwidth is not None)
    text = f"{len(good)} connections are ok"
    if not trips or not rates:
        return text
    slowest, fastest = format_duration(trips[-1]), format_duration(trips[0])
    return f"{text}: {fastest} to {slowest} round trip, {_rate(rates[0])} to {_rate(rates[-1])}"


def _untold(report: DoctorReport) -> Iterator[str]:
    """The hosts whose doctors were not heard from."""
    told = {index for pair in report.pairs for index in pair.sources}
    silent = [index for index in range(len(report.workers)) if index not in told]
    if silent:
        listed = ", ".join(f"{index} ({report.workers[index]})" for index in silent)
        text = f"Nothing was heard from the host of worker(s) {listed}: how it reaches the others is not known."
        yield wrap(text, "  ")


def _rate(bandwidth: float) -> str:
    return f"{format_bytes(bandwidth)}/s"


def _ahead(offset: float) -> str:
    """Returns how far another clock is ahead of this one."""
    return f"{'-' if offset < 0 else '+'}{format_duration(abs(offset))}"
