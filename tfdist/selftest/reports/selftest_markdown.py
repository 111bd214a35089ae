"""Markdown report of a selftest: what a reader needs who has never seen the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdist.doctor.check_result import CheckStatus
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
