from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.made_checkpoints import folder_of, run_with, save
from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of, chosen, to_json
from tfdist.checkpoint.inspection.contents import changes, compared, inspected, render, render_changes
from tfdist.checkpoint.inspection.stored_variables import StoredVariable
from tfdist.errors import DataError


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


def test_what_changed_between_two(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a", 10)
    save(run, 20, workers=3, config={"fit": {"epochs": 8}})
    held = checkpoints_of(run.path)[1]
    document = compared(chosen(held, 10), chosen(held, 20))
    assert document["steps"] == 10
    assert document["facts"] == {"config.fit.epochs": [5, 8], "workers": [2, 3]}
    assert [(v["name"], v["what"], v["relative"]) for v in document["variables"]] == [
        ("layers/dense/0", "changed", 1.0),
        ("replicas/seeds", "same", 0.0),
    ]


def test_weights_that_went_astray_were_not_zero(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a", 10)
    save(run, 20, {"layers/dense/vars/0": np.full((3, 4), math.nan, np.float32)}, seed=math.inf)
    held = checkpoints_of(run.path)[1]
    document = compared(chosen(held, 10), chosen(held, 20))
    assert (document["variables"][0]["what"], document["variables"][0]["relative"]) == ("changed, not finite", None)
    assert "layers/dense/0  float32 [3, 4]  changed, not finite" in render_changes(document)
    assert document["facts"]["seed"] == [7, None]


@pytest.mark.parametrize("place", [b"TREE", b"HEAP", b"SNOD"])
def test_weights_of_the_right_size_and_no_sense(tmp_path: Path, place: bytes) -> None:
    run = run_with(tmp_path / "a", 10)
    file = folder_of(run, 10) / "model.weights.h5"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(place, b"XXXX"))
    with pytest.raises(DataError, match="checkpoints verify"):
        inspected(checkpoints_of(run.path)[1][0])
    file.write_bytes(whole)
    assert inspected(checkpoints_of(run.path)[1][0])["variables"]  # the damaged file is not open any more


@pytest.mark.parametrize(
    "told",
    [
        {"record": None},
        {"record": {"history": [1]}},
        {"record": {"history": {"loss": [], "mae": 3, "mse": ["a"]}}},
        {"time": "noon"},
        {"time": 1e300},
        {"time": math.nan},
        {"versions": ["3.15"]},
    ],
)
def test_a_summary_of_another_shape(tmp_path: Path, told: dict[str, Any]) -> None:
    run = run_with(tmp_path / "a")
    save(run, 10, **told)
    held = checkpoints_of(run.path)[1]
    assert "layers/dense/0" in render(inspected(held[0]))
    json.dumps(to_json("a", held), allow_nan=False)


def test_a_checkpoint_that_the_run_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with(tmp_path / "a", 10)
    (entry,) = checkpoints_of(run.path)[1]
    monkeypatch.setattr(StoredVariable, "norm", lambda _: shutil.rmtree(entry.stored.path, ignore_errors=True))
    with pytest.raises(DataError, match="cannot be read"):
        inspected(entry)


def test_a_file_that_is_no_weights(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a", 10)
    (folder_of(run, 10) / "model.weights.h5").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="cannot be read"):
        inspected(checkpoints_of(run.path)[1][0])
