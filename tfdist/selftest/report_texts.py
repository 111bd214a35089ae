"""Texts of a selftest's report: the table for terminals, a line a result, as they come; the folder with all of it.

The folder is found usable before minutes of runs, and written at the end.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.doctor.check_result import CheckStatus
from tfdist.errors import UsageError
from tfdist.rundir import atomic_files
from tfdist.selftest.layouts import Layouts
from tfdist.selftest.rows import Row, RowResult
from tfdist.selftest.selftest_report import MachineReport, SelftestReport, chosen_flags, speed_lines, speed_rows
from tfdist.text import format_duration, wrap
from tfdist.verify.replicas.verification_report import ComparisonVerdict

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
SHARED_CORES = "  Devices and workers share the cores of this machine here: how they scale says nothing about GPUs."
_VERDICT = {
    0: "Every row gives the numbers of one device.",
    4: "**Rows failed, or there was no time for them**; those that came to their end give the numbers of one device.",
    6: "**Rows give other numbers than one device.**",
}
_ABOUT_TIMES = (
    "The same number of samples on every replica: *scaling* is samples a second over those of one device times the "
    "replicas."
)
_OPTION = "--output"


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
    """The lines of the table, whose columns are as wide as the names of all rows need."""

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


def to_markdown(report: SelftestReport) -> str:
    """The report, with a newline at its end."""
    blocks = [
        f"# tfdist selftest on {report.machine.host} ({report.machine.gpus})",
        *_options(report),
        f"{_VERDICT[report.code]} {verdict_counts(report.results)} in {format_duration(report.seconds)}. "
        f"Exit code {report.code}.",
        "## Rows",
        _rows(report.results),
        *report.notes,
        *_details(report.results),
        *_times(report),
        *_copies(report),
        "## Machine",
        _markdown_table([("", ""), *report.machine.facts]),
        *_topology(report.machine.topology),
        *_checks(report),
    ]
    return "\n\n".join(blocks) + "\n"


def _rows(results: Sequence[RowResult]) -> str:
    heading, *others = HEADINGS
    lines = [(heading, "what", *others)]
    lines += [(cells(result)[0], result.row.title, *cells(result)[1:]) for result in results]
    return _markdown_table(lines) + (
        "\n\n*Greatest difference* is the relative difference from one device that comes nearest to what is allowed of "
        "it: ten times what a rounding error did to the same training, and at least 1e-5, in 16 bits, or where workers "
        "send gradients so, 2e-2. float32 is computed without TensorFloat-32, but in the times. *Devices* counts the "
        "replicas of all workers."
    )


def _options(report: SelftestReport) -> list[str]:
    flags = chosen_flags(report.options)
    return [f"Options: `{flags}`"] if flags else []


def _details(results: Sequence[RowResult]) -> Iterator[str]:
    told = [result for result in results if result.reason or result.detail]
    if told:
        yield "## What differs, what failed, and what was not run"
    for result in told:
        yield f"### {result.row.name} on {result.layout.label}: {verdict_word(result)}"
        if result.reason:
            yield result.reason
        if result.detail:
            yield _fenced(result.detail)


def _times(report: SelftestReport) -> Iterator[str]:
    if report.times:
        yield "## Times of a step"
        yield _markdown_table(speed_rows(report.times))
        yield _ABOUT_TIMES + ("" if report.machine.tensorflow.gpus else f" {SHARED_CORES.strip()}")


def _copies(report: SelftestReport) -> Iterator[str]:
    # Between parts of the CPU, or of one GPU, nothing is copied.
    pairs = [
        pair
        for result in report.results
        if not (result.layout.logical or result.layout.shares_gpus)
        for pair in result.document.get("pairs", ())
    ]
    if pairs:
        yield "## Copies between GPUs"
        rows = [("from", "to", "numbers that arrive as others", "GB/s")]
        yield _markdown_table(
            [*rows, *((pair["source"], pair["target"], f"{pair['wrong']:,}", _rate(pair)) for pair in pairs)]
        )


def _rate(pair: dict[str, float]) -> str:
    return f"{pair['bytes_per_second'] / 1e9:.1f}"


def _topology(text: str) -> list[str]:
    return ["### Topology (nvidia-smi topo -m)", _fenced(text)] if text else []


def _checks(report: SelftestReport) -> Iterator[str]:
    yield "## Checks of tfdist doctor"
    marks = {CheckStatus.OK: "ok", CheckStatus.WARN: "warn", CheckStatus.FAIL: "**FAIL**"}
    rows = [("check", "", "found", "advice")]
    yield _markdown_table(
        [*rows, *((check.name, marks[check.status], check.found, check.advice) for check in report.machine.checks)]
    )


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", "<br>")


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


@dataclass(frozen=True)
class ReportFolder:
    """A new folder, which is made when the reports are written.

    Raises:
        UsageError: It exists and is not an empty directory, or cannot be made.
    """

    path: Path

    def __post_init__(self) -> None:
        # Unlike those of Path, these have no error for a directory that is closed to this user.
        if os.path.lexists(self.path) and not self._is_empty():
            raise UsageError(
                f"{_OPTION} expects a new or an empty directory: an earlier report is not replaced. "
                f"Received: {self.path}"
            )
        parent = self.path.absolute()
        while not os.path.isdir(parent) and parent != parent.parent:
            parent = parent.parent
        if not os.access(parent, os.W_OK | os.X_OK):
            raise UsageError(
                f"{_OPTION} expects a directory that this user can make. Received: {self.path}, and {parent} cannot be "
                "written to. Choose another place."
            )

    @classmethod
    def chosen(cls, path: str | None, host: str, began: float) -> ReportFolder:
        """The folder that a user asked for; by default one in the working directory, named after host and time."""
        if path is not None:
            return cls(Path(path))
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", host) or "host"
        return cls(Path(f"selftest-{name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(began))}"))

    def write(self, report: SelftestReport) -> tuple[Path, Path]:
        """Writes both reports; returns the file of markdown and that of JSON. Raises `RunDirError` if it cannot."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise atomic_files.write_error(self.path, error, _OPTION) from error
        markdown, document = self.path / "report.md", self.path / "report.json"
        atomic_files.write_text(markdown, to_markdown(report), named_by=_OPTION)
        atomic_files.write_json(document, report.to_json(), named_by=_OPTION)
        return markdown, document

    def _is_empty(self) -> bool:
        try:
            return os.path.isdir(self.path) and not os.listdir(self.path)
        except OSError:
            return False
