"""Table of a pruning: the model before and after, and its layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdist.inference.comparison_table import Result, drop_words, model_table
from tfdist.text import format_bytes, table

_SIZES = (("file", "bytes"), ("file, gzipped", "compressed_bytes"), ("weights", "weight_bytes"))


def render(result: Result) -> str:
    """Returns what came of a pruning, in lines."""
    return "\n".join([*model_table(result, _SIZES), "", *_layers(result), "", *_verdict(result)])


def _layers(result: Result) -> Iterator[str]:
    rows = [["layer", "class", "kernel", "", "weights", "left", "sparsity"]]
    rows += [_layer(layer) for layer in result["layers"]]
    yield from table(rows, "llllrrr")


def _layer(layer: dict[str, Any]) -> list[str]:
    before, after = layer["shape_before"], layer["shape_after"]
    changed = "" if before == after else f"-> {_shape(after)}"
    share = 1 - layer["left"] / layer["weights"]
    numbers = [f"{layer['weights']:,}", f"{layer['left']:,}", f"{share:.1%}"]
    return [layer["name"], layer["kind"], _shape(before), changed, *numbers]


def _shape(shape: list[int]) -> str:
    return "x".join(map(str, shape))


def _verdict(result: Result) -> Iterator[str]:
    for name, why in result["kept_channels"].items():
        yield f"{name} keeps its pruned channels, as zeros: it {why}."
    yield drop_words(result)
    if result["held"]:
        size = format_bytes(result["after"]["bytes"])
        yield f"{result['structure']}, sparsity {result['sparsity']:.1%}: {result['output']}, {size}"
    elif result["shows_nothing"]:
        yield "No budget could be exceeded, and nothing was made. Prune a trained model."
    else:
        yield "The budget is exceeded, and nothing was made. Prune less, or train longer with --epochs."
