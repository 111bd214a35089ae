"""Call folder: the private folder by which the kernel, the launcher and the workers hand things on.

The kernel writes `request.json` and `call.pkl`, the chief `result.pkl` and the launcher `outcome.json`. What is pickled
is code that runs when it is read: nobody but the user can enter the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir.temp_names import remove_abandoned, temp_path

_STEM = "tfdist-notebook"


@dataclass(frozen=True)
class CallFolder:
    """The paths in a call folder."""

    path: Path

    @property
    def request(self) -> Path:
        """The file with what the launcher is asked to do."""
        return self.path / "request.json"

    @property
    def call(self) -> Path:
        """The function and its arguments."""
        return self.path / "call.pkl"

    @property
    def result(self) -> Path:
        """The file with what the function returned on the chief."""
        return self.path / "result.pkl"

    @property
    def outcome(self) -> Path:
        """The file that says how the job ended."""
        return self.path / "outcome.json"

    def remove(self) -> None:
        """Removes the folder, which may be gone."""
        shutil.rmtree(self.path, ignore_errors=True)


@contextlib.contextmanager
def call_folder() -> Iterator[CallFolder]:
    """While entered, there is such a folder, below the system's folder for temporary files.

    Folders of kernels that were killed on this machine are removed as well.

    Raises:
        RunDirError: It cannot be made.
    """
    with writing():
        path = temp_path(Path(tempfile.gettempdir()) / _STEM)
        remove_abandoned(path.with_name(_STEM))
        os.mkdir(path, 0o700)
    folder = CallFolder(path)
    try:
        yield folder
    finally:
        folder.remove()


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Around what writes into a folder, or makes one.

    Raises:
        RunDirError: The disk is full, or cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise RunDirError(
            f"The function cannot be handed to the workers: {error.strerror or error}. Expected a folder for temporary "
            f"files with room for the function and its data. Received: {_place()}. Set TMPDIR to another one before "
            "the notebook starts, or let the function read large data from files."
        ) from error


def _place() -> str:
    with contextlib.suppress(OSError):
        return tempfile.gettempdir()
    return "none that can be written"
