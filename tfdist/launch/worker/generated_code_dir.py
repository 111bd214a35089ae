"""The folder for the Python files that TensorFlow generates in the workers of one launcher.

TensorFlow's AutoGraph writes a file into the system's folder for temporary files for every function that it converts,
and removes it when the process ends. A worker that is killed leaves its files behind; this folder is removed with them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tfdist.rundir.temp_names import remove_abandoned, temp_path

_STEM = "tfdist-autograph"


@contextlib.contextmanager
def generated_code_dir() -> Iterator[str | None]:
    """While entered, there is a folder of its own; its path, or None where none can be made.

    Folders of launchers that were killed on this machine are removed as well.
    """
    # Imported here: they take milliseconds, which a launcher that is only asked for its help need not spend.
    import shutil
    import tempfile

    try:
        path = temp_path(Path(tempfile.gettempdir()) / _STEM)
        remove_abandoned(path.with_name(_STEM))
        os.mkdir(path, 0o700)
    except OSError:
        # Without a place for temporary files, or with a full one, workers meet the same: TensorFlow says so there.
        yield None
        return
    try:
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
