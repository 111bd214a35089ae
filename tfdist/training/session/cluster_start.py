"""While TensorFlow forms the cluster, its native code holds Python's lock: no thread of this process can watch it.

Seen with TensorFlow 2.21: until every worker has come, `context.ensure_initialized` lets no other thread run, and waits
for an hour. So others watch: the launcher, which is told beforehand how long it may take; where that one is gone, the
kernel; and as the last a thread of C.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import signal
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
"""Of Linux: which signal this process gets when the thread that started it is gone."""


@contextlib.contextmanager
def bounded(seconds: float, *, has_launcher: bool) -> Iterator[None]:
    """Around the forming of a cluster.

    Args:
        seconds: After which the process ends, with exit code 1 and its stacks on stderr.
        has_launcher: Whether the parent of this process is its launcher, with which it is to end.
    """
    if sys.__stderr__ is not None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    if has_launcher:
        _end_with_parent(signal.SIGKILL)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if has_launcher:
            _end_with_parent(0)


def _end_with_parent(number: int) -> None:
    """Asks the kernel for a signal when the parent dies; 0 for none. Elsewhere than on Linux nothing comes of it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
