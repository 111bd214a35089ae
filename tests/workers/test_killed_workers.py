"""Workers with TensorFlow that are killed at one moment or another: the job says so and starts again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tfdist.rundir import RunDir

SCRIPT = Path(__file__).parent / "scripts" / "dying.py"
KILLS = [("at start", 1), ("before step 1", 0), ("before step 6", 1), ("while saving", 0)]
MORE = [("at start", 0), ("before step 1", 1), ("before step 6", 0), ("before step 9", 1)]


@pytest.mark.slow
@pytest.mark.bound(120)
@pytest.mark.parametrize(("moment", "culprit"), KILLS + MORE)
def test_a_killed_worker_is_named_and_all_start_again(tmp_path: Path, moment: str, culprit: int) -> None:
    run = RunDir(tmp_path / "run")
    done = tfdist(
        "train", "--nproc", 2, "--max-restarts", 1, "--run-dir", run.path, SCRIPT, moment, culprit, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "steps 9"
    assert f"error: worker {culprit} (" in done.stderr and "killed by SIGKILL" in done.stderr
    failure = json.loads(run.attempt_failure_file(0).read_text())
    assert (failure["index"], failure["kind"], failure["type"]) == (culprit, "signal", "SIGKILL")
    assert [path.name for path in run.path.iterdir() if "saved" in path.name] == ["saved.keras"]
