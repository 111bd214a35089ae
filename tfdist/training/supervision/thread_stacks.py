"""Python stacks of all threads of this process, and which of their frames are the user's own code."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from tfdist.launch.worker.channel_protocol import CALLED
from tfdist.runtime.batches import host_feed
from tfdist.runtime.thread_frames import frames_of_other_threads
from tfdist.runtime.transport import shared_memory

RUNPY = "<frozen runpy>"
"""The file name of the frames in which Python runs a module for `-m`."""

_PACKAGE = Path(__file__).resolve().parents[2]
_REPAIRS = _PACKAGE / "keras_repairs"
_STARTERS = {_PACKAGE / "training", _PACKAGE / "notebook"}


def is_user_file(filename: str) -> bool:
    """Returns whether a frame's code is neither a library's nor made by TensorFlow from a user's function."""
    path = Path(filename)
    libraries = {_PACKAGE, Path(sysconfig.get_path("stdlib"))}
    return (
        # The cell of a notebook is no file, but Python has its text.
        (path.is_file() or filename in linecache.cache)
        and libraries.isdisjoint(path.parents)
        and "site-packages" not in path.parts
        and (not path.name.startswith("__autograph_generated_file"))
    )


def starts_scripts(filename: str) -> bool:
    """Returns whether a frame's code is what starts a user's script or module."""
    return filename == RUNPY or not _STARTERS.isdisjoint(Path(filename).parents)


def is_raised_by_user(error: BaseException) -> bool:
    """Returns whether code of the user's own was under way when `error` was raised."""
    return bool(_user_frames(error))


def user_place_of(error: BaseException) -> str:
    """Returns where in the user's own code `error` came from."""
    frames = _user_frames(error)
    return f"in {frames[-1].filename}, line {frames[-1].lineno}" if frames else "at an unknown place"


def script_traceback(error: BaseException) -> str:
    """The traceback as python prints it for the script alone: without frames that started it or passed a call on."""
    frames = error.__traceback__
    while frames is not None and starts_scripts(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    said = traceback.TracebackException(type(error), error, frames or error.__traceback__)
    each: traceback.TracebackException | None = said
    while each is not None:
        each.stack = traceback.StackSummary.from_list(_without_passing_repairs(each.stack))
        each = each.__cause__ or each.__context__
    return "".join(said.format())


def _without_passing_repairs(stack: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The frames but those of repairs of Keras that called what they replace, where the error came from there."""
    beyond = max((place for place, frame in enumerate(stack) if not _is_in(_PACKAGE, frame)), default=-1)
    return [frame for place, frame in enumerate(stack) if place > beyond or not _is_in(_REPAIRS, frame)]


def _is_in(folder: Path, frame: traceback.FrameSummary) -> bool:
    return folder in Path(frame.filename).parents


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]


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


def stack_of(thread: int, frame: FrameType) -> traceback.StackSummary:
    """The stack of a thread from its innermost frame, outermost first; approximate where the thread is running.

    A generator that the thread has left meanwhile has lost its caller. Then the stack is read again.
    """
    for _ in range(_LOOKS):
        inwards = [(outer, line) for outer, line in traceback.walk_stack(frame)]
        if not inwards[-1][0].f_code.co_flags & _SUSPENDABLE:
            break
        frame = frames_of_other_threads().get(thread, frame)
    return traceback.StackSummary.extract(reversed(inwards))


def format_stacks() -> str:
    """The stacks of all threads as Python prints them, each under its name.

    The main thread's comes first, then those of threads that run functions of the user for it.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = {ident: stack_of(ident, frame) for ident, frame in frames_of_other_threads().items()}
    found[threading.get_ident()] = stack_of(threading.get_ident(), sys._getframe())
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
    frames = frames_of_other_threads() if frames is None else frames
    main = threading.main_thread().ident or 0
    return _innermost(stack_of(main, frames.get(main) or sys._getframe())) or "outside of the script"


def called_places(frames: Mapping[int, FrameType] | None = None) -> str:
    """Returns where those threads are in which TensorFlow or Keras run the user's functions, as for an input pipeline.

    Args:
        frames: See `main_place`.

    Returns:
        `FILE line N in FUNCTION` of each other one, comma-separated; where there is none, that of tfdist's thread that
        waits for a batch which it draws for other workers, too; else empty.
    """
    frames = frames_of_other_threads() if frames is None else frames
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
