"""mpirun while it runs, and what it has said."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

_LEAVE_SECONDS = 10.0
_MOST_SAID = 16_384


class MpirunProcess:
    """A started mpirun; its output is kept in a file.

    Args:
        command: How it is called.
        environ: Its environment.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        # In a session of its own: Ctrl-C at the terminal is for the launch, which tells the hosts.
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """The end of what it has said, without empty lines and rulers."""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), _MOST_SAID, max(0, size - _MOST_SAID)).decode(errors="replace")
        return "\n".join(line.strip() for line in text.splitlines() if line.strip(" -\t="))

    def close(self) -> None:
        """Waits a moment for its end, as that of its ranks is known, and ends it."""
        for number, seconds in ((None, _LEAVE_SECONDS), (signal.SIGTERM, _LEAVE_SECONDS), (signal.SIGKILL, None)):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        self._output.close()
