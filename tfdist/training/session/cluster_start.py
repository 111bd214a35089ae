"""Start of the cluster: reports that this worker waits for the others, and bounds the wait.

Until every worker has joined, TensorFlow's `context.ensure_initialized` holds Python's lock in native code and waits
for up to an hour (seen with TensorFlow 2.21): no Python thread of this process can watch it. So others do: the
launcher, which is told beforehand how long it may take; the kernel, where the launcher is gone; and last, a C thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import signal
import sys
from collections.abc import Iterator

from tfdist.cluster.cluster_spec import Cluster
from tfdist.training.supervision.launcher_link import LauncherLink

_PR_SET_PDEATHSIG = 1
"""Linux: sets the signal that this process gets when the thread that started it ends."""


@contextlib.contextmanager
def forming(index: int, cluster: Cluster | None, seconds: float, link: LauncherLink | None) -> Iterator[None]:
    """Around the forming of a cluster of several workers.

    Args:
        index: This worker's index.
        cluster: All workers.
        seconds: How long it may take; see `bounded`.
        link: The connection to the launcher, which then says what is waited for; None without one.
    """
    if link is None:
        print(
            f"tfdist: worker {index} waits until all of {cluster} have joined, for {seconds:g} s at most. Each must "
            "reach every other on its port: `tfdist doctor --workers ...` finds out whether they do.",
            file=sys.stderr,
            flush=True,
        )
    with (
        contextlib.nullcontext() if link is None else link.heartbeat.forming(),
        bounded(seconds, has_launcher=link is not None and link.channel is not None),
    ):
        yield


@contextlib.contextmanager
def bounded(seconds: float, *, has_launcher: bool) -> Iterator[None]:
    """Ends the process if what is inside takes too long, even while native code holds Python's lock.

    Args:
        seconds: The bound, after which the process ends with exit code 1 and its stacks on stderr.
        has_launcher: Whether the parent of this process is its launcher: then the process ends when the parent does.
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
    """Asks the kernel for a signal when the parent ends; 0 for none. It does nothing on other systems than Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
