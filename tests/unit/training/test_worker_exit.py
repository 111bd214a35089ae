"""The end of a worker, whatever its script has done with what it prints to."""

from __future__ import annotations

import subprocess
import sys

import pytest

_EXIT = """
import atexit, os, sys
from tfdist.training.worker import _ProcessExit
leave = _ProcessExit()
leave.code = 7
# Handlers run from the last to the first: where this one runs, the process was left to the interpreter.
atexit.register(os._exit, 9)
atexit.register(leave)
{act}
"""


@pytest.mark.parametrize(
    "act",
    [
        "",
        "sys.stdout.close()",
        "sys.stdout = sys.stderr = None",
        "os.close(1); print('lost')",
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost')",
    ],
)
def test_a_worker_ends_with_its_code_whatever_became_of_its_output(act: str) -> None:
    command = [sys.executable, "-c", _EXIT.format(act=act)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 7, done.stderr
