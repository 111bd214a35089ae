from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import image_reading


@pytest.mark.parametrize("reader", ["tensorflow", "tfdist"])
def test_reading_images(
    reader: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_line: Callable[..., None],
    printed: Callable[[], dict],
) -> None:
    monkeypatch.setattr(image_reading, "IMAGES", 2 * image_reading.CLASSES)
    monkeypatch.setattr(image_reading, "SIZE", 32)
    command_line(reader, image_reading.write_folder(tmp_path), "--seconds", 1e-3)
    image_reading.main()
    assert printed()["steps_per_second"] > 0
