"""How far the rows of a job are from those of one device, and whether that is within a row's bounds.

The criterion is that of `tests/exactness/comparison.py`; here the largest difference is wanted, too, and TensorFlow is
not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

_OF_WEIGHTS = ("weights", "predict")

RowVerdict = Literal["passed", "differs", "raised", "not run"]


@dataclass(frozen=True)
class RowDifference:
    """What came of one row.

    Attributes:
        row: Its name.
        losses: The largest difference of losses and metrics, relative or, of small numbers, absolute.
        weights: Of weights and predictions.
        verdict: Whether both are within the bounds; `raised` where a process could not run it, and `not run` where one
            did not come to it in time.
        reason: Which process, and what it said; empty where all ran.
    """

    row: str
    losses: float | None
    weights: float | None
    verdict: RowVerdict
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; what is not finite is a text."""
        numbers = {name: _json_number(getattr(self, name)) for name in ("losses", "weights")}
        return {"row": self.row, **numbers, "verdict": self.verdict, "reason": self.reason}


def _json_number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def read_rows(file: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The facts that a worker of `exact_rows` wrote, and its rows by name; those that are whole, if it was ended."""
    lines = []
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # the last one of a worker that was ended
                break
    return (lines[0] if lines else {}), {line["row"]: line for line in lines[1:]}


def compare_rows(
    names: Iterable[str],
    reference: Mapping[str, dict[str, Any]],
    workers: Sequence[Mapping[str, dict[str, Any]]],
    bound: float | None = None,
) -> list[RowDifference]:
    """What came of each row on several replicas, beside one device.

    Args:
        names: The rows that were asked for.
        reference: The rows of one device.
        workers: Those of each worker.
        bound: In place of a row's own bounds, where these are larger than it.
    """
    return [_compared(name, reference, workers, bound) for name in names]


def _compared(
    name: str,
    reference: Mapping[str, dict[str, Any]],
    workers: Sequence[Mapping[str, dict[str, Any]]],
    bound: float | None,
) -> RowDifference:
    parts = [("one device", reference), *((f"worker {index}", rows) for index, rows in enumerate(workers))]
    for who, rows in parts:
        if name not in rows:
            return RowDifference(name, None, None, "not run", f"{who} did not come to it")
        if "raised" in rows[name]:
            said = rows[name]["raised"].strip().splitlines()[-1]
            return RowDifference(name, None, None, "raised", f"{who}: {said}")
    one, largest = reference[name], {"losses": 0.0, "weights": 0.0}
    for rows in workers:
        for part, value in rows[name]["outcome"].items():
            kind = "weights" if part in _OF_WEIGHTS else "losses"
            largest[kind] = max(largest[kind], difference(one["outcome"].get(part), value))
    limits = {kind: max(one[kind], bound or 0.0) for kind in largest}
    passed = all(largest[kind] <= limits[kind] for kind in largest)
    return RowDifference(name, largest["losses"], largest["weights"], "passed" if passed else "differs")


def counts(found: Sequence[RowDifference]) -> str:
    """How many rows came out how, in words."""
    verdicts: tuple[RowVerdict, ...] = ("passed", "differs", "raised", "not run")
    numbers = {verdict: sum(each.verdict == verdict for each in found) for verdict in verdicts}
    return ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number)


def difference(one: Any, several: Any) -> float:
    """The largest of |several - one| / (1 + |one|) over all numbers; infinite where they are not alike at all."""
    if isinstance(one, dict) and isinstance(several, dict):
        if one.keys() != several.keys():
            return math.inf
        return max((difference(value, several[key]) for key, value in one.items()), default=0.0)
    if isinstance(one, list) and any(isinstance(part, list | dict) for part in one):
        if not isinstance(several, list) or len(one) != len(several):
            return math.inf
        return max((difference(a, b) for a, b in zip(one, several, strict=True)), default=0.0)
    return _of_arrays(one, several)


def _of_arrays(one: Any, several: Any) -> float:
    a, b = np.asarray(one), np.asarray(several)
    if a.shape != b.shape:
        return math.inf
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(a, b) else math.inf
    a, b = a.astype(float), b.astype(float)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(b - a) / (1 + np.abs(a)))
    # What is finite on one side alone is as far as can be.
    return float(np.max(np.where(np.isnan(far), math.inf, far), initial=0.0))
