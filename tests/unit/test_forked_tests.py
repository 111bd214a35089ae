"""What runs the tests of mutants: each run sees the modules as they are then, and none outlives its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import until

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

Run = Callable[..., int | None]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
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

    def ask(test: str, **options: float) -> int | None:
        assert process.stdin is not None and process.stdout is not None
        asked = {"tests": [test], "seconds": 200, "processor_seconds": 100, **options}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())[0]

    yield ask
    process.kill()
    process.communicate()


def test_each_run_sees_the_modules_as_they_are(run: Run, tmp_path: Path) -> None:
    assert run("test_it.py::test_module", compiles=True) == 0
    os.utime(tmp_path / "module.py", (1, 1))
    for value in (2, 1, 3):  # as large as before, and perhaps in the same second
        (tmp_path / "module.py").write_text(f"value = {value}\n")
        assert run("test_it.py::test_module") == (value != 1)


def test_a_run_that_takes_too_long_is_ended_with_all_that_it_started(run: Run, tmp_path: Path) -> None:
    assert run("test_it.py::test_hangs", seconds=5) is None
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])
    assert run("test_it.py::test_module") == 0


def test_a_run_that_computes_too_long_is_ended(run: Run) -> None:
    assert run("test_it.py::test_computes", processor_seconds=2) is None
