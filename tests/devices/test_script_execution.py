"""A process that a script forks ends as the script says, and does not continue as the worker."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist.training.run_script import execute_script

FORKS = """
import os, sys
child = os.fork()
if not child:
    {end}
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """What other tests have left is not taken apart in a forked process, which lacks the threads that this may need."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("raise ValueError('child')", 1), ("os._exit(9)", 9)]
)
def test_a_forked_process_that_comes_to_the_end(
    end: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS.format(end=end))
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    ours = os.getpid()
    try:
        ended = execute_script(str(script), [], is_module=False)
    finally:
        if os.getpid() != ours:
            # It would continue with the tests.
            os._exit(99)
    assert ended == 7
    out, err = capfd.readouterr()
    assert out == f"{code}\n"
    assert ("ValueError: child" in err) == (code == 1)
