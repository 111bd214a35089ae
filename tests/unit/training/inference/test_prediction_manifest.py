from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.training.inference.prediction_manifest import Part, PredictionManifest, part_name
from tfdist.training.model_outputs.output_columns import OutputColumn

COLUMNS = (OutputColumn("p", "float32", (3,)), OutputColumn("name", "string"))
WORK = {"model": "a", "samples": 10}
MANIFEST = PredictionManifest(WORK, COLUMNS, (Part(part_name(0), 0, 4, 100, 7), Part(part_name(4), 4, 9, 90, 8)))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(MANIFEST.to_json()))
    assert PredictionManifest.read(tmp_path / "m.json") == MANIFEST
    assert MANIFEST.done == 9 and PredictionManifest(WORK).done == 0
    assert PredictionManifest.read(tmp_path / "absent.json") is None


def test_what_is_different() -> None:
    assert MANIFEST.differences(WORK) == []
    assert MANIFEST.differences({"model": "b", "format": "npz"}) == [
        "model: a then, b now",
        "samples: 10 then, None now",
        "format: None then, npz now",
    ]


def part(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": part_name(0), "start": 0, "stop": 4, "size": 100, "crc32": 7, **changes}]


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 0},
        {"work": []},
        {"columns": []},  # parts of nothing
        {"parts": []},  # columns of nothing
        {"parts": part(name="../part-000000000000.npz")},
        {"parts": part(name="a.npz")},
        {"parts": part(stop=0)},
        {"parts": part(size=True)},
        {"parts": part(crc32=-1)},
        {"parts": part(more=1)},
        {"parts": part(name=part_name(1), start=1)},  # sample 0 is missing
        {"columns": [{"name": "a", "dtype": "object", "shape": []}]},
        {"columns": [{"name": "a", "dtype": "bool", "shape": [-1]}]},
        {"columns": [{"name": "a", "dtype": "bool", "shape": []}] * 2},
        {"columns": [{"name": 1, "dtype": "bool", "shape": []}]},
    ],
)
def test_what_is_no_manifest(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({**MANIFEST.to_json(), **changes}))
    with pytest.raises(UsageError, match="does not say what the parts beside it are"):
        PredictionManifest.read(tmp_path / "m.json")
