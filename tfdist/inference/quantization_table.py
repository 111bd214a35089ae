"""Table of a quantization: the model before and after, and its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfdist.text import format_bytes, format_count, table
from tfdist.verify.exit_codes import DIFFERS

EXCEEDED = DIFFERS
"""The exit code where a budget is exceeded: the model differs too much."""

Result = Mapping[str, Any]


def render(result: Result) -> str:
    """What came of a quantization, in lines."""
    return "\n".join([*_model(result), "", *_layers(result), "", *_verdict(result)])


def _model(result: Result) -> Iterator[str]:
    before, after = result["before"], result["after"]
    names = sorted(before["metrics"], key=lambda name: not name.endswith("loss"))
    rows = [["", "before", "after", "change"]]
    rows += [_numbers(name, before["metrics"][name], after["metrics"][name]) for name in names]
    rows += [
        [what, format_bytes(before[key]), format_bytes(after[key]), f"{after[key] / before[key] - 1:+.0%}"]
        for what, key in (("file", "bytes"), ("weights", "weight_bytes"))
    ]
    times = before["sample_ms"], after["sample_ms"]
    rows.append(["one sample", *(f"{time:.3g} ms" for time in times), f"{times[1] / times[0] - 1:+.0%}"])
    yield from table(rows, "lrrr")


def _numbers(name: str, before: float, after: float) -> list[str]:
    return [name, f"{before:.6g}", f"{after:.6g}", f"{after - before:+.4g}"]


def _layers(result: Result) -> Iterator[str]:
    layers: Sequence[Result] = result["layers"]
    alone = any(layer["alone"] is not None for layer in layers)
    head = ["layer", "class", "weights", "", "in float because"]
    rows = [[*head[:4], *([f"{result['metric']} alone", "drop"] if alone else []), head[4]]]
    for layer in layers:
        row = [layer["name"], layer["kind"], format_bytes(layer["bytes_before"])]
        row.append("" if layer["float_because"] else f"-> {format_bytes(layer['bytes_after'])}")
        if alone:
            has = layer["alone"] is not None
            row += [f"{layer['alone'][result['metric']]:.6g}", f"{layer['drop_alone']:+.4g}"] if has else ["", ""]
        rows.append([*row, layer["float_because"] or ""])
    yield from table(rows, "llrl" + ("rr" if alone else "") + "l")


def _verdict(result: Result) -> Iterator[str]:
    drop = f"{result['metric']} is {abs(result['drop']):.4g} {'worse' if result['drop'] > 0 else 'better'}"
    if result["drop"] == 0:
        drop = f"{result['metric']} is the same"
    budget = "" if result["max_drop"] is None else f", with a budget of {result['max_drop']}"
    yield f"{drop}{budget}, on {format_count(result['samples'], 'sample')}."
    if result["held"]:
        yield f"{result['mode']}: {result['output']}, {format_bytes(result['after']['bytes'])}"
    else:
        yield "The budget cannot be held, and nothing was made."
