from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tfdist.checkpoint.inspection.comparison import changes
from tfdist.checkpoint.inspection.stored_variables import StoredVariable


def variable(name: str, values: Any, dtype: str = "float32") -> StoredVariable:
    array = None if values is None else np.asarray(values, np.float64)
    return StoredVariable(name, "", () if array is None else array.shape, dtype, lambda: array)


@pytest.mark.parametrize(
    ("before", "after", "relative"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [3.0, 9.0], 1.0),
        ([0.0, 0.0], [0.0, 1.0], math.inf),
        ([0.0], [0.0], 0.0),
        ([math.nan], [math.nan], 0.0),
        ([3.0, 4.0], [3.0, math.nan], math.nan),
        ([math.nan, 4.0], [math.nan, 5.0], math.nan),
        ([3.0, 4.0], [3.0, math.inf], math.nan),
        ([1.0, 2.0], [[1.0, 2.0]], None),
        (None, None, None),
    ],
)
def test_relative_change(before: Any, after: Any, relative: float | None) -> None:
    (change,) = changes({"a": variable("a", before)}, {"a": variable("a", after)})
    assert change.relative == pytest.approx(relative, nan_ok=True)


def test_added_and_removed() -> None:
    found = changes({"a": variable("a", [1.0]), "b": variable("b", [1.0])}, {"c": variable("c", [1.0])})
    assert [(change.name, change.before, change.after) for change in found] == [
        ("c", "", "float32 [1]"),
        ("a", "float32 [1]", ""),
        ("b", "float32 [1]", ""),
    ]
