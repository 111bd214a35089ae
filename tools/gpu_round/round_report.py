"""The report of a round, in Markdown, and its JSON lines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison.markdown_table import markdown_table
from tfdist.text import format_count
from tools.gpu_round.part_runner import PartOutcome
from tools.gpu_round.row_differences import RowDifference, counts

Rows = Mapping[str, Sequence[RowDifference]]
"""Job of rows -> what came of each."""


def append_line(file: Path, **fields: Any) -> None:
    """Adds a line of JSON to the results."""
    with open(file, "a", encoding="utf-8") as out:
        print(json.dumps(fields), file=out, flush=True)


def outcome_fields(outcome: PartOutcome) -> dict[str, Any]:
    """A part's outcome as JSON has it."""
    return {**dataclasses.asdict(outcome), "seconds": round(outcome.seconds, 1)}


def report(heading: Sequence[str], outcomes: Sequence[PartOutcome], rows: Rows) -> str:
    """The page.

    Args:
        heading: Its first lines: title, card, driver, versions.
        outcomes: Of all parts that have ended.
        rows: Of all jobs of rows that were compared.
    """
    lines = [*heading, "", "## Parts", "", *_parts(outcomes, rows)]
    missing = [outcome for outcome in outcomes if outcome.verdict == "not run"]
    if missing:
        lines += ["", "## Not run", "", *(f"- {each.part} ({each.about}): {each.reason}" for each in missing)]
    if rows:
        lines += ["", "## Numbers beside those of one device", "", *_numbers(rows, outcomes)]
    for outcome in outcomes:
        lines += _details(outcome)
    failed = [outcome for outcome in outcomes if outcome.verdict in ("failed", "cut")]
    for outcome in failed:
        lines += ["", f"## {outcome.part} {outcome.verdict}", "", "```", outcome.reason, "```"]
    return "\n".join([*lines, ""])


def _parts(outcomes: Sequence[PartOutcome], rows: Rows) -> list[str]:
    table = [["part", "what it shows", "", "seconds"]]
    table += [[each.part, each.about, _came(each, rows), f"{each.seconds:.0f}"] for each in outcomes]
    return markdown_table(table, "lllr")


def _came(outcome: PartOutcome, rows: Rows) -> str:
    """What came of a part; of one that ran rows, what came of these."""
    if outcome.part in rows:
        of_rows = counts(rows[outcome.part])
        return of_rows if outcome.verdict == "passed" else f"{outcome.verdict}; {of_rows}"
    return outcome.verdict


def _numbers(rows: Rows, outcomes: Sequence[PartOutcome]) -> Iterator[str]:
    """The largest difference of each row in each job, and below on what they ran, and what is wrong."""
    yield "The largest relative difference of any loss, metric, weight or prediction; within the bounds of"
    yield "`tests/exactness`, unless it is bold. TensorFloat-32 is off."
    yield ""
    names = list(dict.fromkeys(each.row for found in rows.values() for each in found))
    by_name = {job: {each.row: each for each in found} for job, found in rows.items()}
    cells = [[name, *(_cell(found.get(name)) for found in by_name.values())] for name in names]
    yield from markdown_table([["row", *rows], *cells], "l" + "r" * len(rows))
    told = [each for each in outcomes if each.result.get("facts")]
    if told:
        yield ""
        for each in told:
            yield f"- {each.part}: {_ran_on(each.result['facts'])}"
            yield from (f"  - {line}" for line in each.result.get("xla", ()))
    wrong = [(job, each) for job, found in rows.items() for each in found if each.reason]
    if wrong:
        yield ""
        yield from (f"- {job}, {each.row}: {each.reason}" for job, each in wrong)


def _ran_on(facts: Mapping[str, Any]) -> str:
    """On what a job of rows ran, as its chief saw it."""
    how = {"nccl": "over NCCL", "ring": "by the paths of NCCL over the ring"}.get(facts["nccl"] or "", "without NCCL")
    replicas, gpus = format_count(facts["replicas"], "replica"), format_count(facts["gpus"], "logical GPU")
    return f"{replicas}, {gpus} in its chief, {how}, --jit {facts['jit']}"


def _cell(found: RowDifference | None) -> str:
    if found is None:
        return ""
    if found.losses is None or found.weights is None:
        return f"**{found.verdict}**" if found.verdict != "not run" else "not run"
    text = f"{max(found.losses, found.weights):.1e}"
    return text if found.verdict == "passed" else f"**{text}**"


def _details(outcome: PartOutcome) -> list[str]:
    """What a part found, where a line in the table does not say it."""
    result = outcome.result
    if "page" in result:
        # Its own heading, and the machine, are in this report already.
        page = str(result["page"])
        body = page[page.index("\n## ") :] if "\n## " in page else page
        return ["", f"## {outcome.part}", body.replace("\n## ", "\n### ").rstrip()]
    if "milliseconds" in result:
        return ["", f"## {outcome.part}", "", *_collectives(result)]
    if "log" in result:
        said = [f"- {line}" for line in result["log"]] or ["- its log says nothing of XLA"]
        return ["", f"## {outcome.part}", "", f"Steps a second, window by window: {result.get('rates')}.", *said]
    if "said" in result:
        return ["", f"## {outcome.part}", "", "```", *result["said"], "```"]
    if "passed" in result and "skipped" in result:
        counts = ", ".join(f"{result[name]} {name}" for name in ("passed", "failed", "skipped"))
        return ["", f"## {outcome.part}", "", f"{counts}."]
    return []


def _collectives(result: Mapping[str, Any]) -> list[str]:
    rows = [["function", "dtype", "values", "result lies on"]]
    for each in result["values"]:
        right = each.get("raised") or ("right" if each["right"] else "**wrong**")
        rows.append([each["function"], each["dtype"], right, each.get("device", "")])
    large = [["function", f"milliseconds of {result['megabytes']} MB", "result lies on"]]
    for name, took in result["milliseconds"].items():
        large.append([name, f"{took['median']:.1f} ({took['low']:.1f} to {took['high']:.1f})", took["on"]])
    return [*markdown_table(large, "lrl"), "", *markdown_table(rows, "llll")]
