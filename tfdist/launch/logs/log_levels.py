"""Levels of lines that programs print: as far as a line says itself how serious it is. Pure."""

from __future__ import annotations

import re
from typing import Literal

Level = Literal["debug", "info", "warning", "error"]

_NAMES: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "FATAL": "error",
}
_LETTERS: dict[str, Level] = {"I": "info", "W": "warning", "E": "error", "F": "error"}

_HEAD = 100
"""Characters of a line in which its level stands, where it says one."""

_OWN = re.compile(r"(?:tfdist: )?(error|warning)\b", re.IGNORECASE)
_GLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ([IWEF]) ")
_NAMED = re.compile(rf"(?:^|[\s\[(|:-])({'|'.join(_NAMES)})(?=$|[\s\])|:-])")
_PYTHON_WARNING = re.compile(r".+:\d+: \w*Warning: ")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)")


def level_of(line: str) -> Level:
    """Returns how serious a line is: that of Python's and TensorFlow's log lines, warnings and exceptions; else `info`.

    Which stream it was written to says nothing: progress bars and most logs go to stderr.
    """
    head = line[:_HEAD]
    if own := _OWN.match(head):
        return "error" if own[1].lower() == "error" else "warning"
    if glog := _GLOG.match(head):
        return _LETTERS[glog[1] or glog[2]]
    if head.startswith(_TRACEBACK) or _EXCEPTION.match(head):
        return "error"
    if named := _NAMED.search(head):
        return _NAMES[named[1]]
    return "warning" if _PYTHON_WARNING.match(line) else "info"


class LineLevels:
    """Levels of the lines of one stream: those of a traceback are errors from its first to its last."""

    def __init__(self) -> None:
        self._in_traceback = False

    def next(self, line: str) -> Level:
        """The level of the next line."""
        if self._in_traceback and (line.startswith((" ", "\t")) or not line):
            return "error"
        if self._in_traceback:
            self._in_traceback = False
            return "error"  # the exception itself
        self._in_traceback = line.startswith(_TRACEBACK)
        return level_of(line)
