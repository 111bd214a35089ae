"""What processes do in tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdist.data.tools.process_pool import ReportProgress, TaskFunction
from tfdist.errors import DataError, UsageError


@contextlib.contextmanager
def removed(path: Path) -> Iterator[None]:
    """A file that is there while the block runs."""
    path.touch()
    try:
        yield
    finally:
        path.unlink()


def stay() -> None:
    """Waits to be ended, which everybody who calls it is."""
    assert threading.Event().wait(600)


def make_work(argument: int) -> TaskFunction:
    """Returns work that multiplies, unless the task is a word that says what else to do."""
    if argument < 0:
        raise UsageError("no such argument")

    def work(task: Any, report: ReportProgress) -> Any:
        match task:
            case "data":
                raise DataError("record 3 is damaged")
            case "bug":
                raise KeyError("a key")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(3)
            case "complain":
                os.write(2, b"I1123 08:00:00.000000    7 port.cc:153] oneDNN custom operations are on.\n")
                os.write(2, b"no licence\x1b for this library")
                os._exit(3)
            case "crash":
                ctypes.string_at(0)
            case "warn":
                os.write(2, b"a warning\n" * 20_000)
                return 0
            case "stay":
                report(1)
                stay()
            case Path():
                with removed(task):
                    report(1)
                    stay()
        report(task)
        report(1)
        return task * argument

    return work
