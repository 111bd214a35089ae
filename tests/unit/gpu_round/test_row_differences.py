from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exactness.comparison import assert_same
from tools.gpu_round.row_differences import compare_rows, difference, read_rows

OUTCOME = {"history": {"loss": [0.5, 0.25]}, "weights": [[1.0, 2.0], [3.0]]}


def row(outcome: dict[str, Any] = OUTCOME, **fields: Any) -> dict[str, Any]:
    return {"losses": 1e-9, "weights": 1e-6, "outcome": outcome, **fields}


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ({"a": [0.0]}, {"a": [1e-4]}),
        ([[100.0], [1.0, 2.0]], [[100.5], [1.0, 2.0]]),
        ([1.0], [math.nan]),
        ([math.nan, math.inf], [math.nan, math.inf]),
        ([math.inf], [1.0]),
        ([1.0], [1.0, 2.0]),
        ({"a": 1.0}, {"b": 1.0}),
        ([True, False], [True, True]),
        ([[], [1.0]], [[], [1.1]]),
    ],
)
def test_what_passes_is_what_the_tests_of_exactness_let_pass(one: Any, several: Any) -> None:
    found = difference(one, several)
    for bound in (1e-6, 1e-3, 0.04, 0.5):
        try:
            assert_same(one, several, relative=bound)
            passes = True
        except AssertionError:
            passes = False
        assert (found <= bound) == passes, bound


def test_each_row_is_judged_by_its_own_bounds_and_names_the_process_that_lacks_it() -> None:
    near = {"history": {"loss": [0.5, 0.25]}, "weights": [[1.0, 2.0 + 1e-6], [3.0]]}
    far = {"history": {"loss": [0.5 + 1e-6, 0.25]}, "weights": [[1.0, 2.0], [3.0]]}
    reference = {name: row() for name in ("near", "far", "raised", "absent")}
    workers = [
        {"near": row(near), "far": row(), "raised": row(), "absent": row()},
        {"near": row(), "far": row(far), "raised": {"raised": "Traceback\nValueError: no"}},
    ]
    found = {each.row: each for each in compare_rows(reference, reference, workers)}
    assert {name: each.verdict for name, each in found.items()} == {
        "near": "passed",
        "far": "differs",
        "raised": "raised",
        "absent": "not run",
    }
    assert found["near"].weights == pytest.approx(1e-6 / 3)
    assert found["raised"].reason == "worker 1: ValueError: no"
    assert found["absent"].reason == "worker 1 did not come to it"
    [compressed] = compare_rows(["far"], reference, workers, bound=1e-2)
    assert compressed.verdict == "passed"


def test_what_differs_without_bounds_can_be_written() -> None:
    [found] = compare_rows(["x"], {"x": row()}, [{"x": row({"history": {"loss": [0.5]}, "weights": [[1.0]]})}])
    assert found.verdict == "differs" and json.loads(json.dumps(found.to_json()))["weights"] == "inf"


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rows.0"
    whole = json.dumps({"row": "plain", **row()}, default=np.ndarray.tolist)
    file.write_text(f'{{"replicas": 2}}\n{whole}\n{whole[:20]}')
    facts, rows = read_rows(file)
    assert facts == {"replicas": 2} and list(rows) == ["plain"]
    assert read_rows(tmp_path / "rows.1") == ({}, {})
