"""Scripts that are killed once and started again end with every bit of one that was not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import tfdist

SCRIPT = Path(__file__).parent / "scripts" / "kept.py"
BOUND = 150  # seconds


def said(run: Path, index: int, attempt: int) -> Any:
    lines = (run / "logs" / f"worker-{index}.{attempt}.log").read_text().splitlines()
    return json.loads([line for line in lines if line.startswith("{")][-1])


@pytest.mark.bound(3 * BOUND)
def test_a_script_that_is_killed_once_ends_as_the_one_that_was_not(tmp_path: Path) -> None:
    seed = tmp_path / "whole"
    whole = tfdist("train", "--nproc", 2, "--run-dir", seed, "--resume", "auto", SCRIPT, timeout=BOUND)
    assert whole.returncode == 0, whole.stderr
    # Of the same seed: a run that goes on takes that of its directory.
    run = tmp_path / "killed"
    (run / "state").mkdir(parents=True)
    (run / "state" / "run.json").write_text((seed / "state" / "run.json").read_text())
    options = ["--nproc", 2, "--run-dir", run, "--resume", "auto", "--max-restarts", 1]
    killed = tfdist("train", *options, SCRIPT, "killed", "edited", timeout=BOUND)
    assert killed.returncode == 0, killed.stderr
    assert "killed by SIGKILL" in killed.stderr
    assert "tfdist: fit 1 goes on after step 8 (epoch 2, 0 batches done)" in killed.stderr
    assert "tfdist: fit 2 goes on after step 18 (epoch 3, 2 batches done)" in killed.stderr
    for index in range(2):
        assert said(run, index, 1) == said(seed, index, 0)
    resumes = [json.loads(line) for line in (run / "resumes.jsonl").read_text().splitlines()]
    assert [(line["fit"], line["total"], line["attempt"]) for line in resumes] == [(0, 8, 1), (1, 18, 1)]


@pytest.mark.bound(BOUND)
def test_must_fails_where_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "state" / "run.json").write_text("{}")
    done = tfdist("train", "--run-dir", run, "--resume", "must", SCRIPT, timeout=BOUND)
    assert done.returncode == 2
    assert "There is nothing to resume in" in done.stderr
    assert "--resume auto" in done.stderr
