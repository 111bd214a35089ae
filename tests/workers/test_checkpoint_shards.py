"""Checkpoints of which each worker writes its shard are the files of one device, whatever becomes of a worker."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.helpers.cli_process import UNCHECKED, tfdist
from tests.helpers.marks import slow
from tests.helpers.resumable_model import write_config
from tests.helpers.small_training import datasets
from tfdist.checkpoint.checkpoint_files import StoredCheckpoint, stored
from tfdist.checkpoint.shards.joined_file import SHARD_TABLE, has_sharded_weights, opened_weights, shard_file_name
from tfdist.rundir import RunDir

MODULE = "tests.workers.sharded_checkpoints"


def train(folder: Path, workers: int, *arguments: object, launcher: tuple[object, ...] = ()
          ) -> subprocess.CompletedProcess[str]:  # fmt: skip
    folder.mkdir(exist_ok=True)
    return tfdist("train", "--nproc", workers, *UNCHECKED, *launcher, "-m", MODULE, folder, *arguments, timeout=200)


def checkpoints(folder: Path) -> list[StoredCheckpoint]:
    return [entry for entry in stored(RunDir(folder).checkpoints_dir) if entry.is_marked]


def weights_of(entry: StoredCheckpoint) -> dict[str, Any]:
    assert isinstance(entry.path, Path) and has_sharded_weights(entry.path) and entry.fault() is None
    with opened_weights(entry.path) as file:
        return datasets(file)


SHARDED = [
    (2, ("--shard", "zero2")),
    slow(2, ("--shard", "zero3", "--shard-embeddings", 20)),
    slow(3, ("--shard", "zero3")),
    slow(3, ("--shard", "zero1", "--shard-embeddings", 20)),
    slow(3, ("--shard-embeddings", 20)),
    slow(4, ("--shard", "zero3", "--shard-over", 2)),
    slow(4, ("--shard", "zero2", "--shard-over", 2)),
]


@pytest.mark.bound(300)
@pytest.mark.parametrize(("workers", "options"), SHARDED)
def test_the_parts_are_the_file_that_keras_writes(workers: int, options: tuple[object, ...], tmp_path: Path) -> None:
    done = train(tmp_path / "files", workers, launcher=(*options, "--run-dir", tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("together", "apart"):
        folder = tmp_path / "files" / name
        held = checkpoints(folder)
        assert [entry.step for entry in held] == [10, 8, 6, 5, 4, 2]
        assert weights_of(held[0]) == datasets(folder / "whole.weights.h5")
        sizes = [(folder / "checkpoints" / held[0].path.name / shard_file_name(w, workers)).stat().st_size
                 for w in range(workers)]  # fmt: skip
        if "--shard-over" in options:
            # A kernel, and its two slots twice; of what is smaller the first group writes it all.
            assert min(sizes) == (1 + 2 * 2) * 7 * 2500 * 4 // workers, "groups write as much as one another"
        else:
            assert sum(sizes) > 100_000 and max(sizes) - min(sizes) < 2000, "each writes as much as the others"
    kept = tmp_path / "files" / "together"
    with zipfile.ZipFile(kept / "model.keras") as archive:
        assert datasets(io.BytesIO(archive.read("model.weights.h5"))) == datasets(kept / "whole.weights.h5")
    for worker in range(workers):
        log = (tmp_path / "run" / "logs" / f"worker-{worker}.0.log").read_text()
        joined, most = json.loads(log.strip().splitlines()[-1])["wholes"]
        # Without --shard the table alone is in shards, and what the optimizer keeps of it.
        assert joined > (9 if "--shard" in options else 4)
        assert most <= 2, "TensorFlow lets go of one as it takes the next"
    assert checkpoints(tmp_path / "files" / "full") == []
    assert list((tmp_path / "files" / "full" / "checkpoints").iterdir()) == [], "nothing half-written is left"
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    assert log.count("Worker 1 could not write its part of the checkpoint. The disk is full") == 7


@pytest.mark.slow
@pytest.mark.bound(200)
def test_accumulated_gradients_of_whole_weights_are_shared_out(tmp_path: Path) -> None:
    launcher = ("--shard-embeddings", 20, "--run-dir", tmp_path / "run")
    done = train(tmp_path / "files", 2, "--once", "--accumulate", 3, launcher=launcher)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "files" / "together"
    last, *_ = checkpoints(folder)
    found = weights_of(last)
    assert last.step == 10 and found == datasets(folder / "whole.weights.h5"), "one gradient of three is accumulated"
    path = folder / "checkpoints" / last.path.name
    # A kernel, and of it two slots and an accumulated gradient, which Keras stores of a LossScaleOptimizer twice.
    kernel = 7 * 2500 * 4
    assert all((path / shard_file_name(worker, 2)).stat().st_size >= (1 + 2 * 3) * kernel // 2 for worker in range(2))


@pytest.mark.slow
@pytest.mark.bound(600)
@pytest.mark.parametrize(("workers", "mode"), [(2, "zero2"), (2, "zero3"), (3, "zero3")])
def test_a_worker_that_is_killed_while_it_writes_leaves_the_one_before(
    workers: int, mode: str, tmp_path: Path
) -> None:
    def start(name: str, *arguments: object, resume: str = "never") -> subprocess.CompletedProcess[str]:
        options = ("--shard", mode, "--run-dir", tmp_path / f"run-{name}", "--resume", resume)
        return train(tmp_path / name, workers, *arguments, launcher=options)

    assert start("whole", "--once").returncode == 0
    folder = tmp_path / "killed" / "together"
    assert start("killed", "--kill", 3).returncode == 4
    assert [entry.step for entry in checkpoints(folder)] == [4, 2]
    resumed = start("killed", "--once", resume="must")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert not list((folder / "checkpoints").glob(".*.tmp")), "what was half-written is removed"
    assert datasets(folder / "whole.weights.h5") == datasets(tmp_path / "whole" / "together" / "whole.weights.h5")
    assert weights_of(checkpoints(folder)[0]) == weights_of(checkpoints(tmp_path / "whole" / "together")[0])


def weights(path: Path) -> dict[str, np.ndarray]:
    """The weights of the layers whose statistics are not each replica's own."""
    found: dict[str, np.ndarray] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and name.startswith("layers/dense/"):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(add)
    return found


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.slow
@pytest.mark.bound(900)
@pytest.mark.parametrize("change", [damage, Path.unlink], ids=["damaged", "missing"])
def test_it_goes_on_in_any_mode_and_by_any_number_from_the_last_that_is_whole(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    first = ("--shard", "zero3", "--run-dir", tmp_path / "run")
    assert train(tmp_path / "begun", 2, "--kill", 4, launcher=first).returncode == 4
    latest, *_ = checkpoints(tmp_path / "begun" / "together")
    assert latest.step == 5
    change(Path(str(latest.path)) / shard_file_name(1, 2))
    ends = {}
    for workers, mode in [(2, "zero3"), (3, "zero3"), (3, "zero2"), (2, "none"), (1, "none")]:
        folder, run = tmp_path / f"{workers}-{mode}", tmp_path / f"run-{workers}-{mode}"
        shutil.copytree(tmp_path / "begun", folder)
        shutil.copytree(tmp_path / "run", run)
        options = ("--shard", mode, "--run-dir", run, "--resume", "must")
        done = train(folder, workers, "--once", launcher=options)
        assert done.returncode == 0, done.stdout + done.stderr
        log = (run / "logs" / "worker-0.1.log").read_text()
        assert "is damaged" in log and f"{shard_file_name(1, 2)}, the part of worker 1," in log
        assert "resumes after step 4" in log or "step 4" in log, log
        assert (Path(str(checkpoints(folder / "together")[0].path)) / SHARD_TABLE).exists() == (mode != "none")
        ends[workers, mode] = weights(folder / "together" / "whole.weights.h5")
    one = ends.pop((1, "none"))
    for case, other in ends.items():
        assert one and one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_allclose(other[name], value, rtol=0.01, atol=2e-3, err_msg=f"{case}: {name}")


@pytest.mark.slow
@pytest.mark.bound(300)
def test_models_of_parts_are_evaluated_and_exported(tmp_path: Path) -> None:
    model = {"build": "tests.helpers.resumable_model.model", "args": {"cut": True}}
    config, run = write_config(tmp_path, seed=3, model=model, fit={"epochs": 1}), RunDir(tmp_path / "run")
    done = tfdist("train", config, "--nproc", 2, "--shard", "zero3", "--run-dir", run.path, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    held = checkpoints(run.path)
    assert held and all(weights_of(entry) for entry in held)
    (expected,) = json.loads(run.history_file.read_text())["val_loss"]
    for options in [(), ("--nproc", 2)]:
        said = tfdist("evaluate", run.path, "--checkpoint", "latest", *options, timeout=100)
        assert said.returncode == 0, said.stderr
        match = re.search(r"^loss +([\d.]+)$", said.stdout, re.MULTILINE)
        assert match is not None and float(match[1]) == pytest.approx(expected, rel=1e-4)
    exported = tmp_path / "a.keras"
    said = tfdist("checkpoints", "export", run.path, exported, timeout=100)
    assert said.returncode == 0, said.stderr
    with zipfile.ZipFile(exported) as archive:
        assert datasets(io.BytesIO(archive.read("model.weights.h5"))) == weights_of(held[0])
