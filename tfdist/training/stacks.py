"""Where this process is: the Python stacks of all its threads, for a launcher that asks."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from tfdist.training.failures import is_users

MOST_CHARACTERS = 200_000
"""Of the stacks of all threads; what is beyond is cut off."""

_TFDIST = Path(__file__).resolve().parents[1]


def stacks() -> str:
    """The stacks of all threads as Python prints them, the main thread's first, each under its name."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    parts = [f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames]
    return "\n".join(parts)[:MOST_CHARACTERS]


def where(frames: Mapping[int, FrameType] | None = None) -> str:
    """Where the main thread is: `FILE line N in FUNCTION`, the innermost of the user's code or, if none is, tfdist's.

    Args:
        frames: Thread -> its innermost frame; by default those of this process now.
    """
    frames = sys._current_frames() if frames is None else frames
    stack = traceback.extract_stack(frames[threading.main_thread().ident or 0])
    users = [summary for summary in stack if is_users(summary.filename)]
    own = [summary for summary in stack if _TFDIST in Path(summary.filename).parents]
    if not (users or own):
        return "outside of the script"
    innermost = (users or own)[-1]
    return f"{_short(innermost.filename)} line {innermost.lineno} in {innermost.name}"


def _short(filename: str) -> str:
    """A path below the working directory as from there."""
    relative = os.path.relpath(filename)
    return filename if relative.startswith(os.pardir) else relative
