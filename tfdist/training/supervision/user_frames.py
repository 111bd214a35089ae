"""Frames of the user's own code in a stack, as opposed to those of tfdist, Python and libraries."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

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
