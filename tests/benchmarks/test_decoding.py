from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import decoding, image_reading
from tests.helpers.marks import slow


@pytest.mark.bound(200)
@pytest.mark.parametrize("extra", [[], slow(["--each", "own"]), slow(["--each", "all"])])
def test_a_run(extra: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_reading, "IMAGES", 2 * image_reading.CLASSES)
    monkeypatch.setattr(image_reading, "STORED", 32)
    photos = image_reading.write_folder(tmp_path)
    measured = decoding.measure(2, 1, photos, tmp_path / "run", *extra)
    assert measured["steps_per_second"] > 0 and measured["processor_seconds_per_step"] > 0
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    assert ("draws each batch once" in log) == (extra == [])
    assert ("Each worker maps only the samples" in log) == (extra == ["--each", "own"])


def test_medians_of_pairs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, ...]] = []

    def measure(workers: int, steps: int, photos: str, run: Path, *extra: str) -> dict[str, float]:
        asked.append(extra)
        is_each = "all" in extra
        return {"steps_per_second": 1.0 if is_each else 3.0, "processor_seconds_per_step": 8.0 if is_each else 2.0}

    monkeypatch.setattr(image_reading, "IMAGES", 1)
    monkeypatch.setattr(decoding, "measure", measure)
    assert decoding.main(["--pairs", "2"]) == 0
    own, each = ("--each", "own"), ("--each", "all")
    assert asked == [(), own, each, each, own, ()]
    said = capsys.readouterr().out
    assert "steps per second: 3.00 (3.00 to 3.00); medians 3 and 1" in said
    assert "processor seconds per step: 0.25" in said
