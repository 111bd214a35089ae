"""What the launcher prints last of a script that ended by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.peers.messages import Stop
from tfdist.launch.run_dir.closing_line import closing_line
from tfdist.launch.run_result import RunResult
from tfdist.rundir import Failure, RunDir

RUN = RunDir(Path("/r"))


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (RunResult(0, step=1200), "tfdist: done in 72 s, 1,200 steps; logs in /r/logs"),
        (RunResult(0), "tfdist: done in 72 s; logs in /r/logs"),
        (RunResult(3, step=1), "tfdist: the script ended with exit code 3 after 72 s, 1 step; logs in /r/logs"),
        (RunResult(4, (Failure(0, "h", 1.0, "exception", "boom"),), step=9), ""),
        (RunResult(130, stop=Stop(130, "Ctrl-C")), ""),
    ],
)
def test_closing_line(result: RunResult, line: str) -> None:
    assert closing_line(result, 72.0, RUN) == line
