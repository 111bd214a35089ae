from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tfdist.checkpoint.background_writer import BackgroundWriter

SECONDS = 30.0


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """Lets the job end; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


def test_it_does_one_job_at_a_time(go: threading.Event) -> None:
    background = BackgroundWriter()
    done = []
    background.start(lambda: (go.wait(SECONDS), done.append(1)))
    assert background.is_busy and not background.wait(0.0)
    with pytest.raises(RuntimeError, match="no running job"):
        background.start(lambda: done.append(2))
    go.set()
    assert background.wait(SECONDS) and not background.is_busy
    background.start(lambda: done.append(3))
    assert background.wait(SECONDS)
    assert done == [1, 3]


def test_without_a_job_there_is_nothing_to_wait_for() -> None:
    assert BackgroundWriter().wait(0.0)


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "raise ValueError('mine')"])
def test_a_process_that_ends_waits_for_the_job(ending: str) -> None:
    """However it ends."""
    code = f"""
import threading
from tfdist.checkpoint.background_writer import writer
begun = threading.Event()
def job():
    begun.set()
    threading.main_thread().join()  # the main thread is over, and only the exit is left
    print("written", flush=True)
writer().start(job)
begun.wait(30)
{ending}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150)
    assert done.stdout == "written\n", done.stderr


def test_a_job_that_never_ends_does_not_keep_the_process() -> None:
    code = """
import threading
from tfdist.checkpoint import background_writer
background_writer.EXIT_SECONDS = 0.05
background_writer.writer().start(threading.Event().wait)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=150, check=False).returncode == 0
