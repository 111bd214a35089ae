"""The output of `tfdist export`: what it prints of an artefact beside Keras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfdist.text import format_bytes, format_count, table
from tfdist.training.artifacts.artifact_formats import ArtifactFormat


def render(result: Mapping[str, Any], shown: str) -> str:
    """The lines: sizes, differences, labels, and milliseconds a sample."""
    whence = f"of {result['key']}" if result["key"] else "made from the signature"
    head = (
        f"{shown}: {format_bytes(result['bytes'])}, of {format_bytes(result['weights_bytes'])} of weights\n"
        f"{format_count(result['samples'], 'sample')} {whence}, in {result['runtime']} beside Keras:"
    )
    tables = [*_outputs(result), *_metrics(result), *_times(result), *_floats(result)]
    return "\n".join([head, *tables, *_warning(result)])


def excess(result: Mapping[str, Any]) -> str:
    """Returns what is beyond what is allowed, in words, or why nothing can be."""
    if is_beyond(result):
        return f"what was written is not what Keras computes: {_difference_beyond(result)}"
    return f"whatever was written would pass, as {result['shows_nothing']}"


def is_beyond(result: Mapping[str, Any]) -> bool:
    """Returns whether something differs by more than is allowed. A NaN is no number below the tolerance."""
    is_close = all(one["difference"] <= result["tolerance"] for one in result["outputs"])
    return not is_close or not result.get("held", True)


def _difference_beyond(result: Mapping[str, Any]) -> str:
    if not result.get("held", True):
        drop = f"{result['metric']} is {abs(result['drop']):.4g} worse than Keras's"
        return f"{drop}, beyond --max-drop {result['max_drop']}"
    return f"the output {worst(result)}, beyond the tolerance of {result['tolerance']:.2g}"


def next_step(result: Mapping[str, Any], form: ArtifactFormat) -> str:
    """Returns what to do about that."""
    if not is_beyond(result):
        return "Export a trained model, or give samples of which its outputs differ by --data."
    choice = "another --format"
    if form.finer and not result.get("held", True):
        choice = f"--format {form.finer}, which rounds less"
    return f"Choose {choice}, or allow more where that is near enough."


def worst(result: Mapping[str, Any]) -> str:
    """The output that differs most, in words."""
    one = max(result["outputs"], key=lambda output: _rank(output["difference"]))
    place = one["remark"] or f"{one['difference']:.2g} in sample {one['sample']}"
    return f"{one['name']!r} differs most: {place}"


def to_json(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result for programs: null stands for infinity and NaN."""
    return {key: _finite(value) for key, value in result.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list) else value


def _outputs(result: Mapping[str, Any]) -> list[str]:
    rows = [("output", "greatest difference", "same label")]
    for one in result["outputs"]:
        difference = one["remark"] or _difference(one["difference"], result["tolerance"])
        labels = "-" if one["same_labels"] is None else f"{one['same_labels']:,} of {one['labels']:,}"
        rows.append((one["name"], difference, labels))
    return table(rows, "lrr", indent="  ")


def _difference(difference: float, tolerance: float) -> str:
    return f"{difference:.2g}" if math.isinf(tolerance) else f"{difference:.2g} of {tolerance:.2g}"


def _metrics(result: Mapping[str, Any]) -> list[str]:
    """Those of an artefact in integers, which is judged by them."""
    if "metrics" not in result:
        return []
    keras, artifact = result["metrics"]["keras"], result["metrics"]["artifact"]
    rows = [("metric", "Keras", result["runtime"].rpartition(" ")[0], "change")]
    for name in sorted(keras, key=lambda name: not name.endswith("loss")):
        change = f"{artifact[name] - keras[name]:+.4g}"
        rows.append((name, f"{keras[name]:.6g}", f"{artifact[name]:.6g}", change))
    return table(rows, "lrrr", indent="  ")


def _floats(result: Mapping[str, Any]) -> list[str]:
    """Layers of an artefact in integers that are not quite."""
    layers = ", ".join(result.get("float_layers", ()))
    return [f"  an operation of {layers} is computed in float: LiteRT has none in integers"] if layers else []


def _warning(result: Mapping[str, Any]) -> list[str]:
    """Returns what is said where the comparison is none."""
    return [f"  this shows nothing: {result['shows_nothing']}"] if result["shows_nothing"] else []


def _times(result: Mapping[str, Any]) -> list[str]:
    keras, artifact = result["keras"], result["artifact"]
    rows = [("milliseconds a sample", "Keras", result["runtime"].rpartition(" ")[0])]
    if keras["one"] is not None and artifact["one"] is not None:
        rows.append(("one at a time", _ms(keras["one"]), _ms(artifact["one"])))
    rows.append((f"in batches of {keras['batch_size']}", _ms(keras["batch"]), _ms(artifact["batch"])))
    return table(rows, "lrr", indent="  ")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g}"


def _rank(difference: float) -> float:
    return math.inf if math.isnan(difference) else difference
