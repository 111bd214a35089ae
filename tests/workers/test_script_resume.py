"""Scripts that are killed once and started again end with every bit of one that was not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import tfdist

SCRIPT = Path(__file__).parent / "scripts" / "kept.py"
BOUND = 150  # seconds


def said(run: Path, index: int, attempt: int) -> Any:
    lines = (run / "logs" / f"worker-{index}.{attempt}.log").read_text().splitlines()
    return json.loads([line for line in lines if line.startswith("{")][-1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a script that is left alone."""
    run = tmp_path_factory.mktemp("whole") / "run"
    done = tfdist("train", "--nproc", 2, "--run-dir", run, "--resume", "auto", SCRIPT, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    return run


def with_the_seed_of(whole: Path, run: Path) -> list[object]:
    """What trains in `run` with the same seed: a run that goes on takes that of its directory."""
    (run / "state").mkdir(parents=True)
    (run / "state" / "run.json").write_text((whole / "state" / "run.json").read_text())
    return ["train", "--nproc", 2, "--run-dir", run, "--resume", "auto"]


def resumes(run: Path) -> list[tuple[int, int, int]]:
    lines = [json.loads(line) for line in (run / "resumes.jsonl").read_text().splitlines()]
    return [(line["fit"], line["total"], line["attempt"]) for line in lines]


@pytest.mark.bound(3 * BOUND)
def test_a_script_that_is_killed_once_ends_as_the_one_that_was_not(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    options = [*with_the_seed_of(whole, run), "--max-restarts", 1]
    killed = tfdist(*options, SCRIPT, "KILL", "edited", timeout=BOUND)
    assert killed.returncode == 0, killed.stderr
    assert "killed by SIGKILL" in killed.stderr
    assert "tfdist: fit 1 resumes after step 8 (epoch 1 done)\ntfdist: fit 1 was done before" in killed.stderr
    assert "fit 2 was done before" not in killed.stderr
    assert "tfdist: fit 2 resumes after step 18 (epoch 3, 2 batches done)" in killed.stderr
    for index in range(2):
        assert said(run, index, 1) == said(whole, index, 0)
    assert resumes(run) == [(0, 8, 1), (1, 18, 1)]


@pytest.mark.slow
@pytest.mark.bound(3 * BOUND)
def test_a_maximum_of_an_epoch_that_goes_on_is_that_of_the_whole_epoch(tmp_path: Path) -> None:
    """The process that goes on learns within the first step only that the metric is no sum over samples."""
    script = SCRIPT.with_name("maxima.py")
    left_alone, run = tmp_path / "alone", tmp_path / "killed"
    done = tfdist("train", "--nproc", 2, "--run-dir", left_alone, "--resume", "auto", script, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    options = [*with_the_seed_of(left_alone, run), "--max-restarts", 1]
    killed = tfdist(*options, script, "KILL", timeout=BOUND)
    assert killed.returncode == 0, killed.stderr
    assert "resumes after step 11 (epoch 2, 3 batches done)" in killed.stderr
    for index in range(2):
        assert said(run, index, 1) == said(left_alone, index, 0)


@pytest.mark.slow
@pytest.mark.bound(3 * BOUND)
def test_a_script_whose_worker_is_terminated_saves_and_goes_on(whole: Path, tmp_path: Path) -> None:
    """Unedited; both workers stop after the same step, which the run goes on with when it is started again."""
    run = tmp_path / "terminated"
    options = [*with_the_seed_of(whole, run), SCRIPT, "TERM"]
    stopped = tfdist(*options, timeout=BOUND)
    assert stopped.returncode == 143, stopped.stderr
    assert "stopped: SIGTERM to worker 1" in stopped.stderr
    logs = [(run / "logs" / f"worker-{index}.0.log").read_text() for index in range(2)]
    (place,) = {line.partition("; saved ")[2] for log in logs for line in log.splitlines() if "; saved " in line}
    step = int(place.split()[1])
    assert 19 <= step < 32 and place.startswith(f"step {step} (epoch ")
    again = tfdist(*options, timeout=BOUND)
    assert again.returncode == 0, again.stderr
    assert resumes(run) == [(0, 8, 1), (1, step, 1)]
    for index in range(2):
        assert said(run, index, 1) == said(whole, index, 0)


@pytest.mark.bound(BOUND)
def test_must_fails_where_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "state" / "run.json").write_text("{}")
    done = tfdist("train", "--run-dir", run, "--resume", "must", SCRIPT, timeout=BOUND)
    assert done.returncode == 2
    assert "There is nothing to resume in" in done.stderr
    assert "--resume auto" in done.stderr
