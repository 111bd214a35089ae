"""The section that is printed for a config reads as what it was made from, whatever the names look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.config.yaml_document import read_document
from tfdist.data.tools.shard_config import config_text


@pytest.mark.parametrize("name", ["y", "1e3", "no", "12", "a: b", "null", "#", "x y"])
def test_names_stay_texts(name: str, tmp_path: Path) -> None:
    section = {
        "format": "tfrecord",
        "files": f"{name}/train-*.tfrecord",
        "features": {name: {"dtype": "float32", "shape": [2]}, "other": {"dtype": "string", "shape": []}},
        "label": name,
    }
    (tmp_path / "config.yaml").write_text(config_text(section))
    assert read_document(tmp_path / "config.yaml").content["data"]["train"] == section
