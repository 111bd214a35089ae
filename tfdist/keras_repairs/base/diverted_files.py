"""Files that Keras writes elsewhere in a run that is only rehearsed: into a folder that is removed at its end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class DivertedFiles:
    """The place to which the files of this process go.

    Attributes:
        folder: Where files go that would be elsewhere; None while nothing is diverted.
    """

    folder: Path | None = None

    def place(self, path: Any) -> Any:
        """Returns where a file or folder is written; what is no path, or lies in the folder, is returned as it is."""
        if self.folder is None or not isinstance(path, str | os.PathLike):
            return path
        below = _below(os.fspath(path))
        if Path(below).is_relative_to(self.folder):
            return path
        place = self.folder / "diverted" / below.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return str(place)

    def found(self, path: Any) -> Any:
        """Returns where a file or folder is read: where it was written, if this process or the chief has."""
        place = path if self.folder is None else self._place_of(path)
        return place if place is not path and os.path.exists(place) else path

    def _place_of(self, path: Any) -> Any:
        if not isinstance(path, str | os.PathLike) or self.folder is None:
            return path
        return str(self.folder / "diverted" / _below(os.fspath(path)).lstrip("/"))


def _below(path: str) -> str:
    """A path below which others cannot lie in two ways; of a URL, with its scheme as a folder."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}/{rest}" if separator else os.path.abspath(path)


diverted_files = DivertedFiles()
"""Those of this process."""
