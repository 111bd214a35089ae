"""The frames of the other threads of this process, for who looks where they are."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType


def frames_of_other_threads() -> dict[int, FrameType]:
    """Thread -> its innermost frame, without that of the caller, and without garbage collection meanwhile.

    A caller that kept its own frame in a variable would keep what the frames of all threads hold, such as weights, for
    as long as no garbage is collected. CPython before 3.11.9 holds a lock of its own here, and waits for ever when a
    `threading.local` is collected: https://github.com/python/cpython/issues/106883.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        frames = sys._current_frames()
        del frames[threading.get_ident()]
        return frames
    finally:
        if collects:
            gc.enable()
