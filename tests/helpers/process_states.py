"""Whether a process runs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether it is there, and not just waits for a parent that asks how it ended."""
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def ends_within(pid: int, seconds: float) -> bool:
    """Whether it ends by itself, or was ended."""
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)
