from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.launch.logs import output_pump
from tfdist.launch.logs.output_pump import BackgroundLog, WorkerLog


class SilentLog(WorkerLog):
    """Its disk answers when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.answers = threading.Event(), threading.Event()

    def write(self, stream: int, data: bytes) -> OSError | None:
        self.asked.set()
        assert self.answers.wait(60)
        return super().write(stream, data)


def test_all_is_written_in_order_before_it_is_closed(tmp_path: Path) -> None:
    log = BackgroundLog(WorkerLog(tmp_path / "log"), 1, pytest.fail)
    for number in range(1000):
        log.write(1 + number % 2, b"%d\n" % number)
    log.close(60)
    assert (tmp_path / "log").read_bytes().split() == [b"%d" % number for number in range(1000)]


def test_a_disk_that_does_not_answer_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_pump, "_MOST_BYTES", 10)
    now = [0.0]
    silent = SilentLog(tmp_path / "log")
    log = BackgroundLog(silent, 1, pytest.fail, lambda: now[0])
    log.write(1, b"first line\n")
    assert silent.asked.wait(60)
    now[0] = 11.0
    log.write(1, b"lost\n")
    log.write(2, b"lost, too\n")
    log.close(0.0)
    silent.answers.set()
    until(lambda: b"missing" in (tmp_path / "log").read_bytes())
    text = (tmp_path / "log").read_text()
    assert text == "first line\n\ntfdist: 15 bytes are missing here, as the disk of this log did not answer\n"


def test_why_a_log_ends_is_told_once(tmp_path: Path) -> None:
    told: list[OSError] = []
    full = WorkerLog(Path("/dev/full")) if os.path.exists("/dev/full") else pytest.skip("needs /dev/full")
    log = BackgroundLog(full, 1, told.append)
    log.write(1, b"a\n")
    log.write(1, b"b\n")
    log.close(60)
    assert [error.strerror for error in told] == ["No space left on device"]
