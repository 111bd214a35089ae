from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.comparison.result_folder import ResultFolder


def test_results_are_written_and_never_replace_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ResultFolder("ddp", str(tmp_path / "a" / "b"))
    folder.write("table", "<svg/>", {"x": 1})
    folder.write("more", "<svg/>", {"x": 2})
    assert sorted(file.name for file in folder.path.iterdir()) == ["ddp.json", "ddp.md", "ddp.svg"]
    assert (folder.path / "ddp.md").read_text() == "more"
    assert json.loads((folder.path / "ddp.json").read_text()) == {"x": 2}
    with pytest.raises(FileExistsError, match="is there already"):
        ResultFolder("ddp", str(folder.path))
    assert ResultFolder("all-reduce", str(folder.path)).path == folder.path
    monkeypatch.chdir(tmp_path)
    assert ResultFolder("ddp", None).path.parent == Path("build/benchmarks")
