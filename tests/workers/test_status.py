"""`tfdist status` beside real launchers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests.helpers.waiting import until
from tests.workers.launcher_processes import REPOSITORY, Launcher, Launchers, marked


def status(launcher: Launcher, *options: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "tfdist", "status", str(launcher.folder / "r"), *options],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return result.stdout


def document(launcher: Launcher) -> dict[str, Any]:
    text = status(launcher, "--json")
    return json.loads(text) if text else {"status": "", "workers": []}


def test_a_running_run_that_is_stopped(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=3, args=["*:hang"], run_dir="r")
    found = until(lambda: len((seen := document(launcher))["workers"]) == 3 and seen)
    assert found["status"] == "starting" and not found["over"]
    assert {worker["process"] for worker in found["workers"]} == {"alive"}
    stopped = found["workers"][1]
    os.kill(stopped["pid"], signal.SIGSTOP)
    first = until(lambda: (worker := document(launcher)["workers"][0])["process"] == "stopped" and worker)
    assert first["index"] == stopped["index"]  # who does nothing comes first
    launcher.send(signal.SIGTERM)
    assert launcher.end() == 143
    assert document(launcher)["status"] == "stopped"


def test_a_run_that_failed(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["1:raise:ValueError boom", "*:hang"], run_dir="r")
    assert launcher.end() == 4
    found = document(launcher)
    assert (found["status"], found["over"], found["failure"]["index"]) == ("failed", True, 1)
    lines = status(launcher, "--watch").splitlines()  # which ends at once: the run is over
    assert lines[1].startswith("failed: worker 1 (") and "ValueError boom" in lines[1]
    assert "worker-1.0.log" in lines[2]


def test_a_launcher_that_was_killed(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["*:hang"], run_dir="r")
    until(lambda: len(document(launcher)["workers"]) == 2)
    launcher.send(signal.SIGKILL)
    assert launcher.end() == -signal.SIGKILL
    found = until(lambda: (seen := document(launcher))["status"] == "seems dead" and seen)
    assert not found["over"] and found["reason"]
    until(lambda: {worker["process"] for worker in document(launcher)["workers"]} == {"gone"})
    until(lambda: not marked(launcher.mark))
