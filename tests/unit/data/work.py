"""What processes do in tests."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdist.data.processes import Report, Work
from tfdist.errors import DataError, UsageError


@contextlib.contextmanager
def removed(path: Path) -> Iterator[None]:
    """A file that is there while the block runs."""
    path.touch()
    try:
        yield
    finally:
        path.unlink()


def make_work(argument: int) -> Work:
    """Returns work that multiplies, unless the task is a word that says what else to do."""
    if argument < 0:
        raise UsageError("no such argument")

    def work(task: Any, report: Report) -> Any:
        match task:
            case "data":
                raise DataError("record 3 is damaged")
            case "bug":
                raise KeyError("a key")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(3)
            case "stay":
                report(1)
                time.sleep(600)
            case Path():
                with removed(task):
                    report(1)
                    time.sleep(600)
        report(task)
        report(1)
        return task * argument

    return work
