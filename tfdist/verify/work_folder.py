"""Work folder of a verification: its run directories, removed at the end unless they are needed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError
from tfdist.rundir.temp_names import keep as keep_folder
from tfdist.rundir.temp_names import temporary_folder


@dataclass
class WorkFolder:
    """The folder of the run directories, and whether it stays."""

    path: Path
    kept: bool

    def keep(self) -> None:
        """Keeps the run directories, for their logs."""
        if not self.kept:
            with contextlib.suppress(OSError):  # on a full disk: what is reported matters more
                keep_folder(self.path)
        self.kept = True


@contextlib.contextmanager
def open_folder(keep: str | None, purpose: str = "verify") -> Iterator[WorkFolder]:
    """A temporary folder, removed at the end, or `keep`, which stays. Raises `UsageError` if that cannot be used."""
    if keep is None:
        with contextlib.ExitStack() as opened:
            yield WorkFolder(_made(purpose, opened), kept=False)
    else:
        _check_empty(keep)
        yield WorkFolder(Path(keep), kept=True)


def _made(purpose: str, opened: contextlib.ExitStack) -> Path:
    try:
        return opened.enter_context(temporary_folder(purpose))
    except OSError as error:
        raise UsageError(
            "No folder for the run directory of this command could be made. Expected room in the folder for temporary "
            f"files, and that this user may write there. Received: {error}. Set TMPDIR to another one."
        ) from error


def _check_empty(keep: str) -> None:
    try:
        Path(keep).mkdir(parents=True, exist_ok=True)
        entries = os.listdir(keep)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be used: {error}. Expected a new or an empty directory.") from error
    if entries:
        raise UsageError(
            f"--keep expects a new or an empty directory for the run directories. Received: --keep {keep} with "
            f"{', '.join(sorted(entries)[:3])}."
        )
