"""What `tfdist doctor` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tfdist.doctor.check_result import Check, CheckStatus
from tfdist.doctor.mesh.pair import Pair
from tfdist.doctor.report import DoctorReport

_WIDTH = 120
_MOST_GOOD = 20
_NAMED = 4
_MARKS = {CheckStatus.OK: "ok", CheckStatus.WARN: "warn", CheckStatus.FAIL: "FAIL"}
_HEADINGS = ("from", "to", "address", "status", "round trip", "bandwidth", "clock")
_INDENT = 12


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
        yield from _hanging(head, check.found)
        if check.advice:
            yield from _hanging(f"{' ' * (len(head) - 3)}-> ", check.advice)


def _connections(report: DoctorReport) -> Iterator[str]:
    count = len(report.workers)
    yield f"Connections of the {count} workers, each as the host that called found it (bandwidth is rough):"
    # Of many that are well, one line tells; what is not well has lines of its own.
    good = [pair for pair in report.pairs if pair.status is CheckStatus.OK]
    shown = [pair for pair in report.pairs if pair.status is not CheckStatus.OK or len(good) <= _MOST_GOOD]
    rows = [_HEADINGS, *(_row(pair, report.workers) for pair in shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    if shown:
        yield _line(_HEADINGS, widths)
    for pair, row in zip(shown, rows[1:], strict=True):
        yield _line(row, widths)
        if pair.status is not CheckStatus.OK:
            yield from _hanging(" " * _INDENT, pair.found)
            yield from _hanging(f"{' ' * (_INDENT - 3)}-> ", pair.advice)
    if len(good) > _MOST_GOOD:
        yield f"  {_summary(good)}"
    yield from _untold(report)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"  {cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _sources(pair: Pair) -> str:
    return ",".join(map(str, pair.sources))


def _row(pair: Pair, workers: Sequence[str]) -> tuple[str, ...]:
    # An address in the list that is a name is shown with what it led to.
    listed = workers[pair.target]
    host = listed.rpartition(":")[0].strip("[]")
    address = f"{listed} ({pair.address})" if pair.address and pair.address != host else listed
    return (
        _sources(pair),
        str(pair.target),
        address,
        _MARKS[pair.status],
        "-" if pair.round_trip is None else trip(pair.round_trip),
        "-" if pair.bandwidth is None else rate(pair.bandwidth),
        "-" if pair.offset is None else clock(pair.offset),
    )


def _summary(good: Sequence[Pair]) -> str:
    trips = sorted(pair.round_trip for pair in good if pair.round_trip is not None)
    rates = sorted(pair.bandwidth for pair in good if pair.bandwidth is not None)
    text = f"{len(good)} connections are ok"
    if not trips or not rates:
        return text
    return f"{text}: {trip(trips[0])} to {trip(trips[-1])} round trip, {rate(rates[0])} to {rate(rates[-1])}"


def _untold(report: DoctorReport) -> Iterator[str]:
    """Who called nobody, as far as was heard: the doctors of the missing workers."""
    told = {index for pair in report.pairs for index in pair.sources}
    silent = [index for index in range(len(report.workers)) if index not in told]
    if silent:
        listed = ", ".join(f"{index} ({report.workers[index]})" for index in silent)
        text = f"Nothing was heard from the host of worker(s) {listed}: how it reaches the others is not known."
        yield textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def trip(seconds: float) -> str:
    """A round trip for people."""
    return f"{seconds * 1000:.2f} ms"


def rate(bandwidth: float) -> str:
    """Bytes a second for people."""
    return f"{bandwidth / 1e6:.3g} MB/s" if bandwidth < 9.995e8 else f"{bandwidth / 1e9:.3g} GB/s"


def clock(offset: float) -> str:
    """How far another clock is ahead, for people."""
    return f"{offset * 1000:+.1f} ms" if abs(offset) < 1 else f"{offset:+.1f} s"


def _hanging(head: str, text: str) -> Iterator[str]:
    indent = " " * len(head)
    width = max(_WIDTH, len(head) + 40)
    for number, line in enumerate(text.splitlines() or [""]):
        yield textwrap.fill(
            line,
            width,
            initial_indent=head if number == 0 else indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ).rstrip()
