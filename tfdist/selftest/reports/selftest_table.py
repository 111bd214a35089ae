"""Table of a selftest for terminals, a line a result, as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tfdist.doctor.check_result import CheckStatus
from tfdist.selftest.layouts import Layouts
from tfdist.selftest.reports.machine_report import MachineReport
from tfdist.selftest.reports.selftest_report import SelftestReport, chosen_flags
from tfdist.selftest.reports.speed_table import speed_lines
from tfdist.selftest.row_results import RowResult
from tfdist.selftest.rows import Row
from tfdist.text import format_duration, wrap
from tfdist.verify.replicas.comparison_results import ComparisonVerdict

_VERDICTS = {
    ComparisonVerdict.PASSED: "same",
    ComparisonVerdict.PARTED: "DIFFERS",
    ComparisonVerdict.FAILED: "FAILED",
    ComparisonVerdict.SKIPPED: "not run",
}
_TIMED = "timed"
HEADINGS = ("row", "devices", "workers", "greatest difference", "allowed", "verdict", "time", "of")
_WIDTHS = (7, 7, 19, 7, 7, 6)
_ALIGN = "rrrrlr"


def cells(result: RowResult) -> tuple[str, ...]:
    """The cells of a result, as in `HEADINGS`."""
    return (
        result.row.name,
        str(result.layout.replicas),
        str(result.layout.workers),
        _number(result.greatest),
        _number(result.allowed),
        verdict_word(result),
        format_duration(result.seconds) if result.seconds else "-",
        result.where,
    )


def verdict_word(result: RowResult) -> str:
    """The verdict in a word; what takes times compares nothing."""
    is_timed = result.verdict is ComparisonVerdict.PASSED and result.allowed is None
    return _TIMED if is_timed else _VERDICTS[result.verdict]


def verdict_counts(results: Sequence[RowResult]) -> str:
    """Returns how many results have which verdict."""
    counts = Counter(verdict_word(result) for result in results)
    return ", ".join(f"{counts[word]} {word}" for word in (*_VERDICTS.values(), _TIMED) if counts[word])


def _number(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.1e}"


class TableLines:
    """The lines of the table, whose columns are as wide as the names of all rows need.

    Args:
        rows: All rows that may come.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._width = max([len(HEADINGS[0]), *(len(row.name) for row in rows)])

    def head(self) -> str:
        """The headings."""
        return self._line(HEADINGS)

    def lines(self, result: RowResult) -> Iterator[str]:
        """A result, and what is to be said of it below."""
        yield self._line(cells(result))
        if result.reason:
            yield wrap(result.reason, "    ")

    def _line(self, texts: Sequence[str]) -> str:
        name, *middle, last = texts
        padded = (
            text.rjust(width) if side == "r" else text.ljust(width)
            for text, width, side in zip(middle, _WIDTHS, _ALIGN, strict=True)
        )
        return "  ".join([name.ljust(self._width), *padded, last]).rstrip()


def opening(machine: MachineReport, found: Layouts, options: Mapping[str, str]) -> str:
    """Returns what is compared with what, and what the doctor warns of."""
    others = " and ".join(layout.label for layout in found.others)
    flags = chosen_flags(options)
    head = f"tfdist selftest on {machine.host} ({machine.gpus}): {others} against 1 device" + (
        f", {flags}" if flags else ""
    )
    # An owner of GPUs that TensorFlow does not see would test the CPU.
    odd = [check for check in machine.checks if check.status is not CheckStatus.OK]
    warnings = [wrap(f"{check.found}. {check.advice}", f"  {check.status.value}: {check.name}: ", 4) for check in odd]
    return "\n".join([head, *(wrap(note, "  ") for note in found.notes), *warnings, ""])


def closing(report: SelftestReport) -> str:
    """Returns what comes below the table: details, times, and the verdict."""
    blocks = [
        f"{result.row.name} on {result.layout.label}:\n{result.detail}" for result in report.results if result.detail
    ]
    if report.times:
        heading = "Times of a step, the same number of samples on every replica:"
        blocks.append("\n".join([heading, *speed_lines(report.times)]))
        blocks += [SHARED_CORES] if not report.machine.tensorflow.gpus else []
    blocks.append(f"selftest: {verdict_counts(report.results)} (exit code {report.code})")
    return "\n\n".join(blocks)


SHARED_CORES = "  Devices and workers share the cores of this machine here: how they scale says nothing about GPUs."
