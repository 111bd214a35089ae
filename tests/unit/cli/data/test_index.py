from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.data.commands import run, write_records
from tfdist.cli.data import index
from tfdist.data.random_access.record_index import open_index
from tfdist.data.tools.index_builder import IndexedFile


def test_index(tmp_path: Path) -> None:
    path = write_records("b.tfrecord", 3)
    result = run("index a.txt b.tfrecord")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "1 file, 2 lines: indexed beside the files or in ~/.cache/tfdist",
        "1 file, 3 records: indexed beside the files or in ~/.cache/tfdist",
    ]
    assert Path(".a.txt.tfindex").exists()
    assert open_index(path).file == Path(".b.tfrecord.tfindex")


def test_an_index_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_records("b.tfrecord", 1)
    monkeypatch.setattr(index, "for_each", lambda *_: [IndexedFile(path, 1, None)])
    result = run("index b.tfrecord")
    assert result.exit_code == 2
    assert "The index of b.tfrecord can be kept neither beside it nor in ~/.cache/tfdist" in result.stderr
