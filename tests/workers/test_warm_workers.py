"""To a launcher, workers that begin with TensorFlow imported are what others are: `tests/helpers/warm_workers.py`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.helpers.cli_process import begun, tfdist
from tests.helpers.process_states import ends_within
from tests.helpers.waiting import until
from tests.helpers.warm_workers import warm

SCRIPT = """
import os, sys, time
with open("/proc/self/cmdline") as file:
    is_fork = "warm_start/server.py" in file.read()
print("begun in", os.getcwd(), "with", os.environ["GIVEN"], "in a fork" if is_fork else "cold", flush=True)
with open(sys.argv[1], "w") as file:
    print(os.getpid(), file=file)
if sys.argv[2:]:
    os.kill(os.getpid(), int(sys.argv[2]))
time.sleep(1000)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_signal_that_ends_the_worker_is_seen_by_its_launcher(script: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = tfdist("train", "--run-dir", tmp_path / "run", script, pid, signal.SIGKILL.value, cwd=tmp_path,
                  environ={"GIVEN": "what is given"})  # fmt: skip
    assert done.returncode == 4
    assert "killed by SIGKILL" in done.stderr
    assert f"begun in {tmp_path} with what is given in a fork" in done.stdout
    assert ends_within(int(pid.read_text()), 0)


def test_a_worker_ends_with_its_launcher(script: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with begun("train", "--run-dir", tmp_path / "run", script, pid, environ=warm({**os.environ, "GIVEN": "x"})) as job:
        number = int(until(lambda: pid.exists() and pid.read_text()))
        assert not ends_within(number, 0)
        job.kill()
        assert ends_within(number, 30)
