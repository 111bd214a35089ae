"""Temporary folder for files that one worker copies from another."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tfdist.rundir.temp_names import remove_abandoned, temp_path

_NAME = "tfdist-checkpoint"


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields an empty folder, readable for this user alone, that is removed when the block ends.

    What a process that was killed in such a block left is removed by the next one.

    Raises:
        OSError: It cannot be made.
    """
    place = Path(tempfile.gettempdir()) / _NAME
    remove_abandoned(place)
    folder = temp_path(place)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
