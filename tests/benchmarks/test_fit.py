from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from benchmarks import fit


def test_fit(monkeypatch: pytest.MonkeyPatch, command_line: Callable[..., None], printed: Callable[[], dict]) -> None:
    monkeypatch.setattr(fit, "BATCH", 8)
    command_line("mlp", 2, "--cores", ",".join(map(str, os.sched_getaffinity(0))))
    fit.main()
    said = printed()
    assert said["model"] == "mlp" and said["steps_per_second"] > 0


def test_a_thread_that_has_ended_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, listed = os.sched_getaffinity(0), os.listdir("/proc/self/task")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    monkeypatch.setattr(fit.os, "listdir", lambda path: [str(thread.native_id), *listed])
    fit.pin(sorted(mine))
    assert os.sched_getaffinity(0) == mine
