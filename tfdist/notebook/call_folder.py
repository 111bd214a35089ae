"""Call folder: the private folder by which the kernel, the launcher and the workers hand things on.

The kernel writes `request.json` and `call.pkl`, the chief `result.pkl` and the launcher `outcome.json`. What is pickled
is code that runs when it is read: nobody but the user can enter the folder.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import RunDirError


@dataclass(frozen=True)
class CallFolder:
    """The paths in a call folder."""

    path: Path

    @property
    def request(self) -> Path:
        """What the launcher is asked to do."""
        return self.path / "request.json"

    @property
    def call(self) -> Path:
        """The function and its arguments."""
        return self.path / "call.pkl"

    @property
    def result(self) -> Path:
        """What the function returned on the chief."""
        return self.path / "result.pkl"

    @property
    def outcome(self) -> Path:
        """How the job ended."""
        return self.path / "outcome.json"


@contextlib.contextmanager
def call_folder() -> Iterator[CallFolder]:
    """While entered, there is such a folder, below the system's folder for temporary files.

    Raises:
        RunDirError: It cannot be made.
    """
    try:
        path = tempfile.mkdtemp(prefix="tfdist-notebook-")
    except OSError as error:
        raise RunDirError(
            f"There is no folder in which the function can be handed to the workers: {error.strerror}. Expected one "
            f"that can be written. Received: {tempfile.gettempdir()}. Set TMPDIR to one before the notebook starts."
        ) from error
    try:
        yield CallFolder(Path(path))
    finally:
        shutil.rmtree(path, ignore_errors=True)
