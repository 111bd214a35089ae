"""Reports of a run's progress to the launcher, from a thread of their own: no step waits for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdist.launch.progress.run_progress import RunProgress

REPORT_SECONDS = 0.25
"""Between two reports."""

_JOIN_SECONDS = 5.0
"""How long the end of a training waits for the last report."""

Tell = Callable[[Mapping[str, Any] | None], None]


@contextlib.contextmanager
def reporting(
    progress: Callable[[], RunProgress | None], tell: Tell, seconds: float = REPORT_SECONDS
) -> Iterator[None]:
    """Reports progress while entered, and then that the training has ended.

    Args:
        progress: How far the run is now; None where there is nothing to report. Called in another thread.
        tell: Passes it on; must not wait.
        seconds: Between two reports.
    """
    over = threading.Event()

    def report() -> None:
        is_over = False
        while not is_over:
            is_over = over.wait(seconds)
            now = progress()
            if now is not None:
                tell(now.to_dict())

    thread = threading.Thread(target=report, name="tfdist-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)
        tell(None)
