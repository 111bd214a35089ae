"""Log file of a worker: every byte of its stdout and stderr, with no line of one inside a line of the other."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

from tfdist.rundir.regular_files import open_to_append


class WorkerLog:
    """The log of one worker in one attempt, opened to append, as the worker itself adds its traceback.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file: FileIO | None = open_to_append(path)
        self._unfinished: int | None = None

    def write(self, stream: int, data: bytes) -> OSError | None:
        """Adds what was written to `stream`; after an unfinished line of the other stream, on a new line.

        Returns:
            Why the log ends here, once: a full disk must not stop the training.
        """
        if self._file is None or not data:
            return None
        if self._unfinished not in (None, stream):
            data = b"\n" + data
        self._unfinished = None if data.endswith(b"\n") else stream
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self.close()
            return error
        return None

    def close(self) -> None:
        """Closes the file; what is written later is dropped."""
        if self._file is not None:
            self._file.close()
            self._file = None
