"""History, metrics and model that a script's run has, on two workers, and how they are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, UNCHECKED, tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, SCRIPTS, said

SCRIPT = SCRIPTS / "trained_twice.py"


def ran(place: Path, *options: object, arguments: tuple[str, ...] = ()) -> tuple[Path, str]:
    run = place / "run"
    done = tfdist("train", "--run-dir", run, *UNCHECKED, *options, SCRIPT, *arguments, cwd=place, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    return run, done.stderr


def arrays_of(file: Path, folder: Path) -> dict[str, Any]:
    """All arrays of a `.keras` file, by their names."""
    with zipfile.ZipFile(file) as opened:
        path = opened.extract("model.weights.h5", folder / file.name.replace(".", "-"))
    found: dict[str, Any] = {}
    with h5py.File(path) as weights:
        weights.visititems(lambda name, one: found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None)
    return found


def config_of(file: Path) -> Any:
    with zipfile.ZipFile(file) as opened:
        return json.loads(opened.read("config.json"))


@pytest.mark.parametrize("options", [("--nproc", 2, "--shard", "zero3"), slow(("--nproc", 2)), slow(("--nproc", 1))])
def test_the_model_of_the_last_fit_is_what_keras_saves(options: tuple[object, ...], tmp_path: Path) -> None:
    run, _ = ran(tmp_path, *options, arguments=("whole", *(["--shard"] if "--shard" in options else [])))
    kept, own = run / "model.keras", tmp_path / "own.keras"
    assert config_of(kept) == config_of(own)
    arrays, expected = arrays_of(kept, tmp_path), arrays_of(own, tmp_path)
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert not (run / "model.weights.h5").exists()
    np.savez(tmp_path / "rows.npz", x=np.zeros((3, 4), np.float32), y=np.zeros((3, 1), np.float32))
    done = tfdist("evaluate", run, "--data", tmp_path / "rows.npz", "--json", timeout=BOUND)
    assert (done.returncode, json.loads(done.stdout)["samples"]) == (0, 3), done.stderr


def test_a_model_that_cannot_be_saved_leaves_its_weights(tmp_path: Path) -> None:
    run, stderr = ran(tmp_path, "--nproc", 2)
    told = said(run, 0)
    assert told["names"] == said(run, 1)["names"] and told["random"] == said(run, 1)["random"]
    assert sum("Keras cannot save the model 'with_function' as a whole" in line for line in stderr.splitlines()) == 1
    assert (run / "model.weights.h5").exists() and not (run / "model.keras").exists()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["fit"]) for line in lines] == [(0, 1), (1, 1), (2, 2), (3, 3), (4, 3)]
    history = json.loads((run / "history.json").read_text())
    losses = [loss for one in told["histories"] for loss in one["loss"]]
    assert (history["loss"], history["val_loss"]) == (losses, told["histories"][1]["val_loss"])
    # Python alone has the same names and random numbers: a save that the script has not asked for leaves no trace.
    python = subprocess.run(
        [sys.executable, SCRIPT],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    alone = json.loads(python.stdout.splitlines()[-1])
    assert (told["names"], told["random"]) == (alone["names"], alone["random"])
    assert "a run with model.weights.h5 alone" in tfdist("evaluate", run, "--data", "x.npz", timeout=BOUND).stderr


@pytest.mark.slow
def test_nothing_is_saved_where_that_is_said(tmp_path: Path) -> None:
    run, _ = ran(tmp_path, "--no-save")
    assert not {"history.json", "metrics.jsonl", "events", "model.keras"} & {entry.name for entry in run.iterdir()}
