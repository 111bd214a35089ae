"""The process in which something is made of a config: its answer, its end and its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.errors import WorkerFailedError
from tfdist.launch.config_process import ConfigProcess

ANSWERING = """
import os, pickle
values, skipped = pickle.loads(os.read(0, int.from_bytes(os.read(0, 8), "big")))
print('[["compile.loss", "%s %s", 2]]' % (values["compile.loss"], skipped[0]))
"""
HANGING = """
import pathlib, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(os.environ["PIDS"]).write_text(f"{os.getpid()} {child.pid}")
print("downloading", file=sys.stderr, flush=True)
time.sleep(600)
"""


STAND_IN = ConfigProcess("stand_in", "Building it", "--static leaves it out")


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module that the child runs."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "stand_in.py"


def test_the_answer(child: Path) -> None:
    child.write_text(ANSWERING)
    assert STAND_IN.answer(({"compile.loss": "mse"}, ("data.train",)), 60) == [["compile.loss", "mse data.train", 2]]


@pytest.mark.parametrize(
    ("content", "how"),
    [("import os; os._exit(3)", "exit code 3"), ("import os; os.abort()", "SIGABRT"), ("pass", "exit code 0")],
)
def test_a_child_that_dies_is_an_error_with_its_last_words(child: Path, content: str, how: str) -> None:
    child.write_text(f"import sys\nprint('no such\\x1b[2J driver', file=sys.stderr, flush=True)\n{content}\n")
    with pytest.raises(WorkerFailedError) as raised:
        STAND_IN.answer(({}, ()), 60)
    text = str(raised.value)
    assert text.startswith(f"Building it failed: its process died ({how}). A run would, too; --static leaves it out.")
    assert text.endswith("It said last:\n  no such?[2J driver")


def test_a_child_that_takes_too_long_ends_with_what_it_has_started(
    child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("PIDS", str(pids))
    child.write_text(HANGING)
    with pytest.raises(WorkerFailedError, match="(?s)took longer than 5 s. .*--timeout.*It said last:\n  downloading"):
        STAND_IN.answer(({}, ()), 5)
    for pid in pids.read_text().split():
        until(lambda pid=pid: has_ended(int(pid)), timeout=10)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for nothing but to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
