"""A job of outcomes that takes too long fails for those alone that it did not come to, and runs once for all."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.workers.outcome_jobs import OutcomeJobs


def test_a_job_that_was_ended_leaves_what_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []

    def ended(*arguments: Any, timeout: float, environ: object) -> NoReturn:
        jobs.append(timeout)
        (tmp_path / "outcome-2-65-0.0").write_text('["first", {"weights": [1.5]}]\n["second", {"wei')
        raise subprocess.TimeoutExpired("tfdist", timeout)

    monkeypatch.setattr("tests.workers.outcome_jobs.tfdist", ended)
    outcomes = OutcomeJobs(tmp_path, "tests.exactness", ["first", "second"], 7.0).outcomes
    assert outcomes(2, 65) == outcomes(2, 65) == [{"first": {"weights": [1.5]}}, {}]
    assert jobs == [7.0]
