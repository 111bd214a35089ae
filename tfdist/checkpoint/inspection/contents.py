"""The contents of a checkpoint, and the changes between two, compared by their variables, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdist.checkpoint.checkpoint_files import StoredPath
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry, finite, mapping
from tfdist.checkpoint.inspection.stored_variables import StoredVariable, StoredVariables, reading
from tfdist.text import format_bytes, format_count, format_time, printable, table

_FACTS = ("seed", "batch_size", "samples", "workers", "replicas", "kernels", "config", "versions")
"""Keys of a summary that can change between two checkpoints without training."""


@dataclass(frozen=True)
class VariableChange:
    """The change of a variable between two checkpoints.

    Attributes:
        name: Its name in both.
        before: Its shape and type in the first; empty where it is missing.
        after: Its shape and type in the second; empty where it is missing.
        relative: The norm of the difference over the norm before: 0 for equal numbers, infinity where all were zero,
            NaN where an element of either is not finite; None where it is missing in one, has another shape, or is not
            a number.
    """

    name: str
    before: str
    after: str
    relative: float | None = None


def changes(before: Mapping[str, StoredVariable], after: Mapping[str, StoredVariable]) -> list[VariableChange]:
    """The change of each variable, in the order of `after`; removed ones come last."""
    found = [_change(name, before.get(name), variable) for name, variable in after.items()]
    return found + [_change(name, variable, None) for name, variable in before.items() if name not in after]


def changed_facts(before: CheckpointEntry, after: CheckpointEntry) -> dict[str, tuple[Any, Any]]:
    """The differences of the summaries, config and versions by dotted keys: name -> before and after."""
    first, second = ({key: entry.summary.get(key) for key in _FACTS} for entry in (before, after))
    flat_first, flat_second = _flat(first), _flat(second)
    names = sorted(flat_first.keys() | flat_second.keys())
    pairs = {name: (flat_first.get(name), flat_second.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _change(name: str, before: StoredVariable | None, after: StoredVariable | None) -> VariableChange:
    relative = None
    if before is not None and after is not None and before.shape == after.shape:
        relative = _relative(before.read(), after.read())
    return VariableChange(name, _kind(before), _kind(after), relative)


def _relative(before: np.ndarray | None, after: np.ndarray | None) -> float | None:
    if before is None or after is None:
        return None
    if np.array_equal(before, after, equal_nan=True):
        return 0.0
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return math.nan
    norm = float(np.linalg.norm(before))
    return float(np.linalg.norm(after - before)) / norm if norm else math.inf


def _kind(variable: StoredVariable | None) -> str:
    return "" if variable is None else f"{variable.dtype} {list(variable.shape)}"


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {key: value}
    parts = (_flat(part, f"{key}.{name}" if key else str(name)) for name, part in value.items())
    return {name: part for flat in parts for name, part in flat.items()}


def inspected(entry: CheckpointEntry) -> dict[str, Any]:
    """The summary, files and variables of a checkpoint; a value that `json.dumps` takes.

    Raises:
        DataError: Its files cannot be read.
    """
    with StoredVariables(entry) as variables:
        found = [_document(variable) for variable in variables.values()]
    with reading(entry.stored.path):
        files: list[StoredPath] = list(entry.stored.path.iterdir())
        sizes = dict(sorted((file.name, file.stat().st_size) for file in files))
    return {"path": str(entry.stored.path), **finite(entry.summary), "files": sizes, "variables": found}


def compared(before: CheckpointEntry, after: CheckpointEntry) -> dict[str, Any]:
    """Returns what changed from one checkpoint to another; a value that `json.dumps` takes.

    Raises:
        DataError: A file cannot be read.
    """
    with StoredVariables(before) as first, StoredVariables(after) as second:
        found = changes(first, second)
    return {
        "before": str(before.stored.path),
        "after": str(after.stored.path),
        "steps": after.stored.step - before.stored.step,
        "facts": {name: finite(list(pair)) for name, pair in changed_facts(before, after).items()},
        "variables": [_change_fields(change) for change in found],
    }


def render(document: Mapping[str, Any]) -> str:
    """Returns what `inspected` returns, as text."""
    history = _history(document)
    lines = [*_head(document), ""]
    if history:
        rows = [(name, *_course(values)) for name, values in history.items()]
        epochs = max(len(values) for values in history.values())
        lines += [f"history of {format_count(epochs, 'epoch')}"]
        lines += [*table([("metric", "first", "least", "most", "last"), *rows], "lrrrr"), ""]
    rows = [
        (
            variable["name"],
            str(variable["shape"]),
            variable["dtype"],
            "-" if variable["norm"] is None else f"{variable['norm']:.6g}",
            variable["owner"],
        )
        for variable in document["variables"]
    ]
    lines += table([("variable", "shape", "type", "norm", ""), *rows], "lllrl")
    return "\n".join(map(printable, lines))


def render_changes(document: Mapping[str, Any]) -> str:
    """Returns what `compared` returns, as text."""
    lines = [f"from  {document['before']}", f"to    {document['after']}, {document['steps']:+,} steps", ""]
    if document["facts"]:
        rows = [(name, _shown(pair[0]), _shown(pair[1])) for name, pair in document["facts"].items()]
        lines += [*table([("name", "before", "after"), *rows], "lll"), ""]
    rows = [
        (change["name"], change["after"] or change["before"], _relative_text(change))
        for change in document["variables"]
    ]
    lines += table([("variable", "shape", "relative change"), *rows], "llr")
    same = sum(change["relative"] == 0 for change in document["variables"])
    lines += ["", f"{same} of {len(document['variables'])} variables are the same"]
    return "\n".join(map(printable, lines))


def _head(document: Mapping[str, Any]) -> list[str]:
    get = document.get
    when = _when(get("time"))
    versions = ", ".join(f"{name} {version}" for name, version in mapping(get("versions")).items())
    kernels = f", {get('kernels')} kernels" if get("kernels") else ""
    files = ", ".join(f"{name} {format_bytes(size)}" for name, size in document["files"].items())
    return [
        f"checkpoint  {document['path']}",
        f"position    {get('total')} steps of the run: {get('epoch')} epochs and {get('step')} steps{when}",
        f"order       seed {get('seed')}, global batch {get('batch_size')}, {get('samples')} samples an epoch",
        f"trained on  {_counted(get('workers'), 'worker')}, {_counted(get('replicas'), 'replica')}{kernels}",
        f"versions    {versions or '-'}",
        f"files       {files}",
    ]


def _counted(number: Any, noun: str) -> str:
    return format_count(number, noun) if isinstance(number, int) else f"{number} {noun}s"


def _history(document: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Metric -> one number an epoch; what a damaged summary has instead is left out."""
    history = mapping(mapping(document.get("record")).get("history"))
    return {name: values for name, values in history.items() if isinstance(values, list) and _are_numbers(values)}


def _are_numbers(values: list[Any]) -> bool:
    return bool(values) and all(value is None or isinstance(value, int | float) for value in values)


def _when(made: Any) -> str:
    try:
        return f", made {format_time(made)}" if made else ""
    except (TypeError, ValueError, OverflowError, OSError):
        return ""  # not a time, or not one that a calendar has


def _course(values: list[float | None]) -> tuple[str, ...]:
    """The first, least, greatest and last of one value an epoch; `-` for what is not finite."""
    known = [value for value in values if value is not None]
    shown = (values[0], min(known, default=None), max(known, default=None), values[-1])
    return tuple("-" if value is None else f"{value:.4g}" for value in shown)


def _document(variable: StoredVariable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "owner": variable.owner,
        "shape": list(variable.shape),
        "dtype": variable.dtype,
        "norm": finite(variable.norm()),
    }


def _change_fields(change: VariableChange) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "relative": finite(change.relative),
        "what": _what(change),
    }


def _what(change: VariableChange) -> str:
    """In a few words what became of a variable."""
    if not change.before or not change.after:
        return "added" if change.after else "removed"
    if change.relative is None:
        return "same shape, no number" if change.before == change.after else "another shape"
    if math.isnan(change.relative):
        return "changed, not finite"
    return "same" if change.relative == 0 else "changed"


def _relative_text(change: Mapping[str, Any]) -> str:
    if change["what"] == "changed":
        return "was zero" if change["relative"] is None else f"{change['relative']:.3g}"
    return f"was {change['before']}" if change["what"] == "another shape" else change["what"]


def _shown(value: Any) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
