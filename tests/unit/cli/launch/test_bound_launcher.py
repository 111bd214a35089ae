from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import signal, sys
from tfdist.cli.launch.bound_launcher import stop_with_stdin
stop_with_stdin()
print(repr(sys.stdin.read()), flush=True)
signal.pause()
"""


def test_it_ends_with_its_stdin_and_those_it_starts_find_no_input() -> None:
    """A script that reads its input would wait for the line that says whether the starter lives."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "''\n"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(30) == -signal.SIGTERM
