"""Folder of a selftest's reports: found usable before minutes of runs, and written at the end."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.doctor.check_result import CheckStatus
from tfdist.errors import UsageError
from tfdist.rundir import atomic_files
from tfdist.selftest.reports.selftest_report import SelftestReport, chosen_flags
from tfdist.selftest.reports.selftest_table import HEADINGS, SHARED_CORES, cells, verdict_counts, verdict_word
from tfdist.selftest.reports.speed_table import speed_rows
from tfdist.selftest.row_results import RowResult
from tfdist.text import format_duration

_VERDICT = {
    0: "Every row gives the numbers of one device.",
    4: "**Rows failed, or there was no time for them**; those that came to their end give the numbers of one device.",
    6: "**Rows give other numbers than one device.**",
}

_ABOUT_TIMES = (
    "The same number of samples on every replica: *scaling* is samples a second over those of one device times the "
    "replicas."
)


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
        if not (result.layout.logical or result.layout.share_gpu)
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


_OPTION = "--output"


@dataclass(frozen=True)
class ReportFolder:
    """A new folder, which is made when the reports are written.

    Attributes:
        path: Where it will be.

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
