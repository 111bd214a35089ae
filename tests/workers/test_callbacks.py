"""Callbacks on two workers that disagree wherever they can: what comes of it is what one replica does."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.exactness.comparison import assert_same
from tests.helpers.cli_process import UNCHECKED, tfdist

SCRIPTS = Path(__file__).parent / "scripts"
BOUND = 200  # seconds; three dozen fits
ROUNDING = 1e-4
"""In float32, after a dozen steps of Adam."""

DENSE = ["predictions", "predictions in bfloat16"]

pytestmark = pytest.mark.bound(2 * BOUND + 60)


@dataclass(frozen=True)
class Job:
    """One run of `deciding.py`: what each worker said, and the folder that it wrote into."""

    said: list[dict[str, Any]]
    folder: Path


def run(folder: Path, workers: int) -> Job:
    files = folder / f"files-{workers}"
    files.mkdir()
    run_dir = folder / f"run-{workers}"
    done = tfdist("train", "--nproc", workers, *UNCHECKED, "--run-dir", run_dir, "--step-timeout", 60,
                  SCRIPTS / "deciding.py", files, timeout=BOUND)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return Job([json.loads(log.strip().splitlines()[-1]) for log in logs], files)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run(tmp_path_factory.mktemp("one"), 1)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run(tmp_path_factory.mktemp("two"), 2)


@pytest.mark.parametrize(
    "what",
    [
        "stop at a batch",
        "stop at a batch, of a function",
        "stop before the first batch",
        "stop at the begin of an epoch",
        "stop at the end of an epoch",
        "stop in the validation",
        "stop on worker 1 alone",
        "stop by a callback that one worker has",
        "stop by a callback on the chief",
        "stop from outside on worker 1",
        "stop evaluating",
        "stop predicting",
        "predict on",
        "stop at NaN",
        "logs of batches",
        "rates of a schedule",
        "rates at the end of epochs",
        "rates of a plateau",
        "checkpoints",
        "best of the checkpoints",
        "averages",
        "resumed",
        "resumed at the end",
        "resumed from nothing",
        "resumed from a batch",
        "resumed from the previous one",
        "damaged",
        "gathered",
        "gathered, evaluated",
    ],
)
def test_what_the_chief_decides_all_do(what: str, one: Job, two: Job) -> None:
    for index, worker in enumerate(two.said):
        assert_same(one.said[0][what], worker[what], f"worker {index}: {what}", ROUNDING)


@pytest.mark.parametrize("what", ["best weights", "best weights of the chief"])
def test_best_weights_are_of_the_chiefs_best_epoch(what: str, one: Job, two: Job) -> None:
    expected = one.said[0][what]
    assert expected["iterations"] == 12, "the best epoch was the last one: nothing to bring back"
    for index, worker in enumerate(two.said):
        for key in ("weights", "iterations"):
            assert_same(expected[key], worker[what][key], f"worker {index}: {what}", ROUNDING)


def test_a_flag_set_outside_of_callbacks_waits_for_the_end_of_the_epoch(one: Job, two: Job) -> None:
    assert [one.said[0]["stop from outside"], *(worker["stop from outside"] for worker in two.said)] == [7, 9, 9]


def test_epochs_that_are_trained_again(two: Job) -> None:
    epochs = {name: said["epochs"] for name, said in two.said[0].items() if name.startswith("resumed")}
    assert epochs == {
        "resumed": 2,
        "resumed at the end": 0,
        "resumed from nothing": 4,
        "resumed from a batch": 2,
        "resumed from the previous one": 2,
    }
    assert two.said[0]["files of the backup"] == ["latest.weights.h5", "training_metadata.json"]


def test_files_are_the_chiefs_and_whole(one: Job, two: Job) -> None:
    def paths(job: Job) -> set[str]:
        files = {str(path.relative_to(job.folder)) for path in job.folder.rglob("*")}
        # One replica, where nothing changes, gets as far as making these before it fails.
        return {path for path in files if not path.startswith("board")}

    assert paths(two) == {*paths(one), "log-1.csv"}
    assert not any(Path(path).name.startswith(".") or path.endswith(".tmp") for path in paths(two))
    rows = list(csv.DictReader((two.folder / "appended.csv").read_text().splitlines()))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 0, 1]
    assert (two.folder / "log-0.csv").read_text() == (two.folder / "log-1.csv").read_text()
    for path in (two.folder / "best-0").iterdir():
        keras.saving.load_model(path)


def test_what_cannot_work_is_said_on_every_worker(two: Job) -> None:
    for worker in two.said:
        assert "pip install tensorboard" in worker["no TensorBoard"]
        assert "1 on worker 0, 0 on worker 1" in worker["backup on one worker"]


@pytest.mark.parametrize("what", [*DENSE, "predictions, ragged", "predictions of many lengths"])
def test_predictions_on_the_chief_alone_when_asked(what: str, one: Job, two: Job) -> None:
    expected = one.said[0][what]
    chief, other = (worker[what] for worker in two.said)
    assert chief["here"] == chief["everywhere"] == other["everywhere"]
    assert_same(expected["everywhere"], chief["everywhere"], what, ROUNDING)
    assert other["rows"] == 0
    if what in DENSE:
        assert other["shape"] == chief["shape"] == expected["shape"]


def test_a_callback_that_raises_on_one_worker_ends_all(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 2, "--run-dir", tmp_path / "run", SCRIPTS / "raising_callback.py", timeout=50)
    assert done.returncode == 4
    assert "error: worker 1 (" in done.stderr
    assert 'raise LookupError("of the callback of one worker")' in done.stderr
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["index"] == 1
    assert failure["message"] == "of the callback of one worker"
