from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tfdist.training.worker import _WorkerLog


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("tfdist", logging.INFO, "", 0, text, None, None)


def test_lines_are_in_the_log_without_a_wait(tmp_path: Path) -> None:
    log = _WorkerLog(tmp_path / "log", seconds=1000)
    writer = threading.Thread(target=log.handle, args=(record("strategy one"),), daemon=True)
    writer.start()
    writer.join(30)
    assert not writer.is_alive(), "the disk's thread waits for a lock that the writer has"
    log.close()
    assert (tmp_path / "log").read_text() == "strategy one\n"


def test_paths_have_their_letters_in_any_locale(tmp_path: Path) -> None:
    log = _WorkerLog(tmp_path / "log")
    log.handle(record("checkpoint in ü, and as ASCII in \udcc3\udcbc"))
    log.close()
    assert (tmp_path / "log").read_text(encoding="utf-8") == "checkpoint in ü, and as ASCII in ü\n"


def test_a_disk_that_does_not_answer_holds_no_training_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(_WorkerLog, "_append", lambda self, line: answers.wait(60))
    log = _WorkerLog(tmp_path / "log", seconds=0.01)
    for _ in range(3):
        log.handle(record("strategy one"))
    assert not answers.is_set()
    answers.set()
