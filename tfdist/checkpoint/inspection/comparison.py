"""Comparison of two checkpoints: their variables and summaries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry
from tfdist.checkpoint.inspection.stored_variables import StoredVariable

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
