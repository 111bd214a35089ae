"""What runs the tests of mutants: each run sees the modules as they are then, and none outlives its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.waiting import until

TOOL = Path(__file__).parents[2] / "tools" / "forked_tests.py"
TEST = """
import os, pathlib, subprocess, sys
import module

def test_module():
    assert module.value == 1

def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    pathlib.Path("pid").write_text(str(child.pid))
    child.wait()

def test_computes():
    while True:
        pass
"""


@dataclass
class Runs:
    """The tool, which waits for what to run."""

    process: subprocess.Popen[str]

    def __call__(self, test: str, **options: float) -> int | None:
        assert self.process.stdin is not None and self.process.stdout is not None
        asked = {"tests": [test], "seconds": 200, "processor_seconds": 100, **options}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())[0]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runs]:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "module.py").write_text("value = 1\n")
    process = subprocess.Popen(
        [sys.executable, str(TOOL)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield Runs(process)
    process.kill()
    process.communicate()


def test_each_run_sees_the_modules_as_they_are(run: Runs, tmp_path: Path) -> None:
    # Older than what follows: of a module as large and of the same second Python takes what it has compiled.
    os.utime(tmp_path / "module.py", (1, 1))
    assert run("test_it.py::test_module", compiles=True) == 0
    for value in (2, 1, 3):  # as large as before, and perhaps in the same second
        (tmp_path / "module.py").write_text(f"value = {value}\n")
        assert run("test_it.py::test_module") == (value != 1)


def test_a_run_that_takes_too_long_is_ended_with_all_that_it_started(run: Runs, tmp_path: Path) -> None:
    assert run("test_it.py::test_hangs", seconds=5) is None
    wait_for_the_end(tmp_path)
    assert run("test_it.py::test_module") == 0


def wait_for_the_end(folder: Path) -> None:
    """Of what `test_hangs` has started."""
    pid = int((folder / "pid").read_text())

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(ended)


def test_nothing_is_left_when_it_is_ended_itself(run: Runs, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(run, "test_it.py::test_hangs")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        run.process.terminate()
        with pytest.raises(ValueError):  # no answer
            asked.result(60)
    wait_for_the_end(tmp_path)


def test_a_run_that_computes_too_long_is_ended(run: Runs) -> None:
    assert run("test_it.py::test_computes", processor_seconds=2) is None
