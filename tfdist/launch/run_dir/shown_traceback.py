"""What a report shows of a traceback: the frames of the user's own code; the log has all."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line \d+.*\n(?:    .*\n)*')
_STACK = re.compile(
    r'(?P<head>^(?:Traceback \(most recent call last\)|Thread .*):\n)(?P<frames>(?:  File ".*\n(?:    .*\n)*)+)', re.M
)
_INSTALLED = ("/site-packages/", "/dist-packages/", "/__autograph_generated_file", f"{Path(__file__).parents[2]}/")
_REST = "(the frames of tfdist, Keras and TensorFlow are in the log, and shown with --verbose)\n"


def shown_traceback(text: str, said: str = "") -> str:
    """A traceback, or the stack of a thread, with the user's frames alone; as it is where it has none of these.

    Args:
        text: As Python prints it, maybe with the exceptions that led to it.
        said: What the report has said of the exception already, which is not repeated.
    """
    text = f"{text.rstrip()}\n"
    users = _STACK.sub(lambda stack: _users_part(stack["head"], stack["frames"]), text)
    if not _FRAME.search(users):
        return text
    users = users.removesuffix(f"{said.rstrip()}\n") if said else users
    return users + (_REST if users.count('  File "') < text.count('  File "') else "")


def _users_part(head: str, frames: str) -> str:
    users = "".join(frame[0] for frame in _FRAME.finditer(frames) if _is_users(frame["file"]))
    return head + users if users else ""


def _is_users(file: str) -> bool:
    if file.startswith("<frozen "):
        return False
    return not any(part in file for part in _INSTALLED) and not file.startswith(sysconfig.get_path("stdlib"))
