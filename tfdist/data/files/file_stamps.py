"""Stamps of files: size and time, by which a change of a file is noticed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tfdist.errors import DataError


@dataclass(frozen=True)
class FileStamp:
    """Size and time of a file.

    Attributes:
        size: In bytes.
        modified_ns: When it was last written, in ns since 1970.
    """

    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """The stamp of a file with this status."""
        return cls(status.st_size, status.st_mtime_ns)


def changed_error(name: str | os.PathLike[str], what: str = "") -> DataError:
    """The error of a file that changed while a run was using it; `what` says how."""
    return DataError(
        f"{name} changed while the run was using it{what and f': {what}'}. Expected files that do not change until the "
        "run ends. Start again once it is written."
    )
