"""Workers that have some rows of each embedding have the numbers of one device, and save and resume what it would."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exactness.comparison import assert_same
from tests.helpers.cli_process import UNCHECKED, tfdist
from tests.helpers.marks import slow
from tests.workers.embedding_cases import CASES
from tests.workers.embedding_model import write_config
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.test_resume import end_of, last_step, same, same_but_for_rounding, train, train_and_kill
from tfdist.rundir import RunDir

SCRIPTS = Path(__file__).parent / "scripts"

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
BOUND = 2400 if SLOW else 400

NAMES = list(CASES) if SLOW else ["momentum_and_clipnorm", "adagrad", "drawn_behind_the_table"]
# One sample more than batches have, so that workers get uneven shares of the last one and some get none.
# In shared memory the test of what is saved compares the numbers, too, and slowly that of `verify`.
JOBS = [(2, 65, "ring")]
if SLOW:
    JOBS += [(3, 65, "ring"), (2, 65, "auto"), (3, 65, "auto"), (4, 50, "auto")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("alone"), "tests.workers.embedding_cases", NAMES, BOUND)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OutcomeJobs]:
    """By `--communication`: in shared memory, and by TensorFlow's collectives, as between hosts."""
    return {
        way: OutcomeJobs(tmp_path_factory.mktemp(way), "tests.workers.embedding_cases", NAMES, BOUND,
                         ["--shard-embeddings", "20", "--communication", way, *UNCHECKED])
        for way in ("auto", "ring")
    }  # fmt: skip


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples", "way"), JOBS)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_device(
    name: str, workers: int, samples: int, way: str, alone: OutcomeJobs, sharing: dict[str, OutcomeJobs]
) -> None:
    (one,) = alone.outcomes(1, samples)
    for index, worker in enumerate(sharing[way].outcomes(workers, samples)):
        assert name in worker, f"worker {index} did not come to it"
        assert "raised" not in worker[name], worker[name]["raised"]
        assert "raised" not in one[name], one[name]["raised"]
        assert_same(one[name], worker[name], f"worker {index}: {name}")


def run(folder: Path, workers: int, *arguments: object) -> list[dict[str, Any]]:
    """What each worker said."""
    files, run_dir = folder / f"files-{workers}", folder / f"run-{workers}-{len(arguments)}"
    files.mkdir(exist_ok=True)
    done = tfdist("train", "--nproc", workers, "--run-dir", run_dir, "--step-timeout", 60, *UNCHECKED,
                  SCRIPTS / "embeddings.py", files, *arguments, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return [json.loads(log.strip().splitlines()[-1]) for log in logs]


@pytest.mark.bound(700)
@pytest.mark.parametrize("workers", [2, slow(3), slow(4)])
def test_what_is_saved_is_what_one_device_saves(tmp_path: Path, workers: int) -> None:
    (one,) = run(tmp_path, 1)
    said = run(tmp_path, workers, tmp_path / "files-1" / "model.keras")
    for each in said:
        assert each.pop("layer") == "ShardedEmbedding"
        assert_same(one["gone on from model.keras"], each.pop("gone on"))
    # The table, Adam's two slots, the average and what is accumulated: each worker has its rows of them.
    held = [each.pop("held") for each in said]
    whole = one.pop("held")
    assert whole == 5 * 101 * 8 and sum(held) == whole and max(held) <= whole / workers + 5 * 8
    for index, each in enumerate(said):
        assert_same(one, each, f"worker {index}")
    (again,) = run(tmp_path, 1, tmp_path / f"files-{workers}" / "model.keras", "only")
    assert_same(one["gone on from model.keras"], again["gone on"])


def test_what_is_refused(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 2, "--shard-embeddings", 10, "--run-dir", tmp_path / "run", "--show", "none",
                  SCRIPTS / "embedding_refusals.py", timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    said = json.loads(log.strip().splitlines()[-1])
    assert "sharded, and the program reads it outside of a lookup" in said["tied"]
    assert "'sharded_embedding', of whose 11 rows this worker has 5" in said["tied"]
    assert "Received: 'big', of whose 11 rows" in said["multiplied"]
    assert "each worker has one at least. Received: 1 rows for 2 workers" in said["rows"]
    assert "cannot have LoRA or be quantized" in said["lora"]
    assert "its constraint MaxNorm(axis=0) may need all rows at once" in said["constraint"]
    assert "its regularizer OrthogonalRegularizer may need all rows" in said["regularizer"]
    assert "of float32 (11, 3) on worker 0, float32 (12, 3) on worker 1" in said["sizes"]
    assert "cannot cut the optimizer Lamb" in said["lamb"] and "the embedding 'words' to update a row" in said["lamb"]
    assert "export it where it is whole" in said["export"] and "'words'" in said["export"]
    assert "ValueError" in said["shape"] and "(5, 3)" in said["shape"]
    assert said["whole"] == "[(11, 3), (10, 3)]"
    assert "of 11 rows stays whole on every worker. It is a Own" in log
    assert "has the rows 0 to 10. Received ids beyond them" in said["ids"] and "11" in said["ids"]


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_killed_run_ends_as_the_one_that_was_not(tmp_path: Path) -> None:
    config, whole, killed = write_config(tmp_path), RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    options = ("--nproc", "2", "--shard-embeddings", "20")
    assert train(config, whole, *options).returncode == 0
    last = train_and_kill(config, killed, 1, 30, *options)
    resumed = train(config, killed, *options, "--resume", "must")
    assert resumed.returncode == 0 and f"resumes after step {last}" in resumed.stdout
    same(end_of(whole), end_of(killed))


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_killed_run_goes_on_on_other_workers(tmp_path: Path) -> None:
    config, whole = write_config(tmp_path), RunDir(tmp_path / "whole")
    options = ("--nproc", "2", "--shard-embeddings", "20")
    assert train(config, whole, *options).returncode == 0
    moved = RunDir(tmp_path / "moved")
    train_and_kill(config, moved, 1, 20, "--nproc", "3", "--shard-embeddings", "20")
    train_and_kill(config, moved, 1, last_step(moved) + 10, "--nproc", "2", "--resume", "must")
    assert train(config, moved, *options, "--resume", "must").returncode == 0
    same_but_for_rounding(end_of(whole), end_of(moved))


@pytest.mark.slow
@pytest.mark.bound(500)
def test_verify(tmp_path: Path) -> None:
    """Gradient norms and weights, those of the table among them, are compared step by step."""
    report = tmp_path / "report.json"
    done = tfdist("verify", write_config(tmp_path), "--replicas", 1, "--nproc", 2, "--shard-embeddings", 20,
                  "--report", report, timeout=400)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(report.read_text())["options"]["shard_embeddings"] == 20


@pytest.mark.bound(300)
def test_without_a_repair_it_is_not_exact(tmp_path: Path, alone: OutcomeJobs) -> None:
    paths = ["BaseOptimizer._clip_gradients", "Embedding.call"]
    done = tfdist("train", "--nproc", 2, "--shard-embeddings", 20, "--run-dir", tmp_path / "run", "--show", "none",
                  "-m", "tests.workers.embedding_without_repair", *paths, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    unclipped, not_looked_up = json.loads(log.strip().splitlines()[-1])
    assert "reads it outside of a lookup" in not_looked_up
    (one,) = alone.outcomes(1, 65)
    right = one["momentum_and_clipnorm"]["weights"]
    assert np.shape(unclipped[0]) == np.shape(right[0])
    assert max(np.abs(np.subtract(*pair)).max() for pair in zip(unclipped, right, strict=True)) > 1e-6
