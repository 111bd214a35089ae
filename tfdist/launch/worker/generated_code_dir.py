"""The folder for the Python files that TensorFlow generates in the workers of one launcher.

TensorFlow's AutoGraph writes a file into the system's folder for temporary files for every function that it converts,
and removes it when the process ends. A worker that is killed leaves its files behind; this folder is removed with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfdist.rundir.temp_names import temporary_folder


@contextlib.contextmanager
def generated_code_dir() -> Iterator[str | None]:
    """While entered, there is a folder of its own; its path, or None where none can be made."""
    with contextlib.ExitStack() as folder:
        try:
            path = str(folder.enter_context(temporary_folder("autograph")))
        except OSError:
            # Without a place for temporary files, or with a full one, workers meet the same: TensorFlow says so there.
            path = None
        yield path
