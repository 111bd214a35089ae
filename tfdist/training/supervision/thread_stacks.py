"""Python stacks of all threads of this process, for a launcher that asks where it is."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from tfdist.launch.worker.channel_protocol import CALLED
from tfdist.runtime.batches import host_feed
from tfdist.runtime.transport import shared_memory
from tfdist.training.supervision.user_frames import is_user_file

MOST_CHARACTERS = 100_000
"""Of the stacks of all threads together; the rest is cut off."""

_MOST_PLACES = 3
_LOOKS = 20
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of code that cannot be the outermost frame of a thread."""

_TFDIST = Path(__file__).resolve().parents[2]


_CALLERS = ("/tensorflow/python/ops/script_ops.py", "/keras/src/trainers/data_adapters/")
"""Code that runs a user's functions in other threads: TensorFlow's those of an input pipeline (`from_generator`,
`py_function`, `numpy_function`), Keras's those of a `PyDataset`."""


_WAITING = (str(Path(shared_memory.__file__).parent), str(Path(host_feed.__file__).parent))
"""Code that waits for other workers in such a function of TensorFlow's; it is none of the user's."""


_DRAWING = (str(Path(host_feed.__file__).parent / "fed_batches.py"), "_arrays_of")
"""File and name of what waits for a batch of the input pipeline, for all workers of the host."""


def frames_of_threads() -> dict[int, FrameType]:
    """Thread -> its innermost frame, without garbage collection meanwhile.

    CPython before 3.11.9 holds a lock of its own here, and waits for ever when a `threading.local` is collected:
    https://github.com/python/cpython/issues/106883.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def stack_of(thread: int, frame: FrameType) -> traceback.StackSummary:
    """The stack of a thread from its innermost frame, outermost first; approximate where the thread is running.

    A generator that the thread has left meanwhile has lost its caller. Then the stack is read again.
    """
    for _ in range(_LOOKS):
        inwards = [(outer, line) for outer, line in traceback.walk_stack(frame)]
        if not inwards[-1][0].f_code.co_flags & _SUSPENDABLE:
            break
        frame = frames_of_threads().get(thread, frame)
    return traceback.StackSummary.extract(reversed(inwards))


def format_stacks() -> str:
    """The stacks of all threads as Python prints them, each under its name.

    The main thread's comes first, then those of threads that run functions of the user for it.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = frames_of_threads()
    found = {ident: stack_of(ident, frame) for ident, frame in frames.items()}
    called = {ident for ident, stack in found.items() if ident != main and _called_place(stack) is not None}
    parts = [
        f"Thread {names.get(ident, ident)}{CALLED if ident in called else ''}:\n{''.join(found[ident].format())}"
        for ident in sorted(found, key=lambda ident: (ident != main, ident not in called))
    ]
    return "\n".join(parts)[:MOST_CHARACTERS]


def main_place(frames: Mapping[int, FrameType] | None = None) -> str:
    """Returns where the main thread is: `FILE line N in FUNCTION`, in the innermost frame of the user or else of
    tfdist.

    Args:
        frames: Thread -> its innermost frame; by default those of this process now.
    """
    frames = frames_of_threads() if frames is None else frames
    main = threading.main_thread().ident or 0
    return _innermost(stack_of(main, frames[main])) or "outside of the script"


def called_places(frames: Mapping[int, FrameType] | None = None) -> str:
    """Returns where those threads are in which TensorFlow or Keras run the user's functions, as for an input pipeline.

    Args:
        frames: See `main_place`.

    Returns:
        `FILE line N in FUNCTION` of each other one, comma-separated; where there is none, that of tfdist's thread that
        waits for a batch which it draws for other workers, too; else empty.
    """
    frames = frames_of_threads() if frames is None else frames
    main = threading.main_thread().ident
    stacks = [stack_of(ident, frame) for ident, frame in frames.items() if ident != main]
    places = {place for place in map(_called_place, stacks) if place}
    if not places:
        drawing = [at for stack in stacks for at in stack if (at.filename, at.name) == _DRAWING]
        places = {_innermost([at]) for at in drawing}
    return ", ".join(sorted(places)[:_MOST_PLACES])


def _called_place(stack: traceback.StackSummary) -> str | None:
    """Returns where a thread is in a function of the user that is run for the main thread; None where it is in none."""
    if any(summary.filename.startswith(_WAITING) for summary in stack):
        return None
    inside = [place for place, summary in enumerate(stack) if any(call in summary.filename for call in _CALLERS)]
    return _innermost(stack[inside[-1] :]) or None if inside else None


def _innermost(stack: Sequence[traceback.FrameSummary]) -> str:
    users = [summary for summary in stack if is_user_file(summary.filename)]
    own = [summary for summary in stack if _TFDIST in Path(summary.filename).parents]
    if not (users or own):
        return ""
    innermost = (users or own)[-1]
    return f"{_short(innermost.filename)} line {innermost.lineno} in {innermost.name}"


def _short(filename: str) -> str:
    """A path relative to the working directory, if it is below it."""
    relative = os.path.relpath(filename)
    return filename if relative.startswith(os.pardir) else relative
