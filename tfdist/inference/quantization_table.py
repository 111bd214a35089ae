"""Table of a quantization: the model before and after, and its layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdist.inference.comparison_table import Result, drop_words, model_table
from tfdist.text import format_bytes, format_count, table

_SIZES = (("file", "bytes"), ("weights", "weight_bytes"))


def render(result: Result) -> str:
    """Returns what came of a quantization, in lines."""
    lines = [*model_table(result, _SIZES), "", *_layers(result), "", *_calibration(result), *_verdict(result)]
    return "\n".join(lines)


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


def _calibration(result: Result) -> Iterator[str]:
    found = result.get("calibration")
    if found:
        size = "all inputs" if found["group_size"] == -1 else format_count(found["group_size"], "input")
        yield (
            f"{found['bits']} bits a weight, a scale for {size} of an output, by "
            f"{format_count(found['samples'], 'sample')} of {found['key']}."
        )


def _verdict(result: Result) -> Iterator[str]:
    yield drop_words(result)
    if result["held"]:
        yield f"{result['mode']}: {result['output']}, {format_bytes(result['after']['bytes'])}"
    elif result["shows_nothing"]:
        yield "No budget could be exceeded, and nothing was made. Quantize a trained model."
    else:
        yield "The budget cannot be held, and nothing was made."
