"""The lock around `keras.utils.get_file`: one holder at a time, and no file when all are done."""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tfdist.keras_repairs.files import downloads
from tfdist.keras_repairs.files.downloads import get_file


def test_one_at_a_time_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(downloads, "_POLL_SECONDS", 0.001)
    inside, most, lock = 0, 0, threading.Lock()

    def original(*args: Any, **kwargs: Any) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.002)
        with lock:
            inside -= 1

    repaired = get_file(original)
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(repaired, "a", origin="b") for _ in range(60)]:
            done.result(60)
    assert most == 1 and list(tmp_path.iterdir()) == []
