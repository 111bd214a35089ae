"""Table of a model before and after it was made smaller: metrics, sizes and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfdist.text import format_bytes, format_count, table
from tfdist.verify.runs import DIFFERS

EXCEEDED = DIFFERS
"""The exit code where a budget is exceeded: the model differs too much."""

Result = Mapping[str, Any]


def model_table(result: Result, sizes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The lines of a table.

    Args:
        result: `before` and `after`, each with `metrics`, `sample_ms` and the sizes.
        sizes: What a size is called, and its key.
    """
    before, after = result["before"], result["after"]
    names = sorted(before["metrics"], key=lambda name: not name.endswith("loss"))
    rows = [["", "before", "after", "change"]]
    rows += [_numbers(name, before["metrics"][name], after["metrics"][name]) for name in names]
    rows += [
        [what, format_bytes(before[key]), format_bytes(after[key]), f"{after[key] / before[key] - 1:+.0%}"]
        for what, key in sizes
    ]
    times = before["sample_ms"], after["sample_ms"]
    rows.append(["one sample", *(f"{time:.3g} ms" for time in times), f"{times[1] / times[0] - 1:+.0%}"])
    yield from table(rows, "lrrr")


def drop_words(result: Result) -> str:
    """Returns how much worse the metric has become, and the budget for it, in a sentence."""
    drop = f"{result['metric']} is {abs(result['drop']):.4g} {'worse' if result['drop'] > 0 else 'better'}"
    if result["drop"] == 0:
        drop = f"{result['metric']} is the same"
    nothing = f" This shows nothing: {result['shows_nothing']}." if result["shows_nothing"] else ""
    budget = "" if result["max_drop"] is None else f", with a budget of {result['max_drop']}"
    return f"{drop}{budget}, on {format_count(result['samples'], 'sample')}.{nothing}"


def _numbers(name: str, before: float, after: float) -> list[str]:
    return [name, f"{before:.6g}", f"{after:.6g}", f"{after - before:+.4g}"]
