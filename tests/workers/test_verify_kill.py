"""`tfdist verify --kill` on real runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.resumable_model import STEPS, write_config

BOUND = 500  # seconds: up to five starts of workers, one after the other


def verify(folder: Path, *arguments: object, code: int) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Runs `tfdist verify --kill`; returns what it printed and its report."""
    temporary, report = folder / "temporary", folder / "report.json"
    temporary.mkdir()
    done = tfdist("verify", "--kill", "--report", report, *arguments,
                  timeout=BOUND - 10, cwd=ROOT, environ={"TMPDIR": str(temporary)})  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    # Of a process that is killed, TensorFlow leaves files of its own.
    assert not any(temporary.glob("tfdist-*")), "a run directory was left behind"
    return done, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.slow
@pytest.mark.bound(BOUND)
@pytest.mark.parametrize(("workers", "kills"), [(1, 1), (2, 3)])
def test_a_run_that_resumes(tmp_path: Path, workers: int, kills: int) -> None:
    config = write_config(tmp_path, seed=3, fit={"epochs": 2})
    done, report = verify(tmp_path, "--nproc", workers, "--kills", kills, config, code=0)
    assert f"the same as untouched (exit code {report['exit_code']})" in done.stdout
    assert report["steps"] == 2 * STEPS
    assert [finding["same"] for finding in report["comparisons"]] == [True] * 4
    attempts = report["attempts"]
    assert len(attempts) == kills + 1
    for before, after in zip(attempts, attempts[1:], strict=False):
        assert before["steps_before"] < after["steps_before"] <= before["steps_after"] < after["steps_after"]
    assert (attempts[-1]["steps_after"], attempts[-1]["killed"]) == (2 * STEPS, None)


@pytest.mark.bound(BOUND)
def test_a_run_that_does_not_end_as_the_untouched_one(tmp_path: Path) -> None:
    config = write_config(tmp_path, model={"build": "tests.workers.forgetful_model.model"}, fit={"epochs": 1})
    done, report = verify(tmp_path, "--nproc", 1, "--kills", 1, config, code=6)
    same = {finding["what"]: finding["same"] for finding in report["comparisons"]}
    assert same == {"resume": True, "samples": True, "history": False, "weights": False}
    assert report["repeatable"] is True
    assert "likely cause: a metric or a callback" in done.stdout
