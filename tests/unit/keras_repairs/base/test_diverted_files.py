from __future__ import annotations

import io
from pathlib import Path

import pytest

from tfdist.keras_repairs.base.diverted_files import DivertedFiles


def test_nothing_is_diverted_where_there_is_no_folder() -> None:
    files = DivertedFiles()
    assert files.place("model.keras") == files.found("model.keras") == "model.keras"


def test_files_are_found_where_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = DivertedFiles(tmp_path / "rehearsal")
    place = files.place("saved/model.keras")
    assert place == str(tmp_path / "rehearsal" / "diverted" / str(tmp_path).lstrip("/") / "saved" / "model.keras")
    assert not (tmp_path / "saved").exists()
    assert files.found("saved/model.keras") == "saved/model.keras"  # nobody has written it
    Path(place).touch()
    assert files.found(tmp_path / "saved" / "model.keras") == place
    assert files.place(place) == place


def test_urls_are_diverted_and_streams_are_not(tmp_path: Path) -> None:
    files = DivertedFiles(tmp_path / "rehearsal")
    assert files.place("gs://bucket/a.keras").endswith("rehearsal/diverted/gs/bucket/a.keras")
    stream = io.BytesIO()
    assert files.place(stream) is files.found(stream) is stream
