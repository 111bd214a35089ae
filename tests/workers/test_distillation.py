"""A run whose config names a teacher: two workers have the numbers of one, and a kill changes nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.cli_process import begun, tfdist
from tests.helpers.resumable_model import BATCH, CLASSES, EPOCHS, FEATURES, SAMPLES, STEPS, end_of, write_config
from tests.helpers.waiting import until
from tests.workers.test_resume import WAYS, same, same_but_for_rounding, train, train_and_kill
from tfdist.rundir import RunDir

WEIGHTED = ["--set", "fit.class_weight={1: 3.0}"]
PLAIN = {"build": "tests.helpers.resumable_model.model", "args": {"plain": True}}


def teacher() -> keras.Model:
    hidden = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dropout(0.5), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((FEATURES,)), *hidden, keras.layers.Dense(CLASSES)])


def student(folder: Path, **changes: Any) -> Path:
    """The config of a run that learns from `teacher.keras` beside it."""
    keras.utils.set_random_seed(8)
    teacher().save(folder / "teacher.keras")
    fit = {"epochs": EPOCHS, "distill": {"teacher": "teacher.keras", "alpha": 0.7}}
    return write_config(folder, **{"seed": 3, "fit": fit, **changes})


@pytest.mark.slow
@pytest.mark.bound(300)
@pytest.mark.parametrize("way", ["nproc", "logical"])
def test_the_numbers_of_one_device(way: str, tmp_path: Path) -> None:
    """203 samples in batches of 8, the last of which has 3. The teacher of the workers is a run."""
    of_teacher = {"name": "teacher", "fit": {"epochs": 1}, "data": data_of(tmp_path), "seed": 4}
    config, run = student(tmp_path, model=PLAIN, **of_teacher), RunDir(tmp_path / "teacher")
    done = train(config, run)
    assert done.returncode == 0, done.stderr
    distill = {"epochs": 2, "distill": {"teacher": str(run), "alpha": 0.7, "temperature": 3}}
    config = student(tmp_path, model=PLAIN, fit=distill)
    one, several = RunDir(tmp_path / "one"), RunDir(tmp_path / "several")
    before = keras.models.load_model(run.model_file).get_weights()
    for end, options in ((one, []), (several, WAYS[way])):
        done = train(config, end, *options, *WEIGHTED)
        assert done.returncode == 0, done.stderr
    same_but_for_rounding(end_of(one), end_of(several))
    after = keras.models.load_model(run.model_file).get_weights()
    assert all((value == kept).all() for value, kept in zip(before, after, strict=True))
    without = RunDir(tmp_path / "without")
    done = train(config, without, *WEIGHTED, "--set", "fit.distill=null")
    assert done.returncode == 0, done.stderr
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(end_of(one).model, end_of(without).model, strict=True))


def data_of(folder: Path) -> dict[str, Any]:
    path = str(folder / "data.npz")
    return {"batch_size": BATCH, "train": {"format": "npz", "path": path, "split": "train"}}


@pytest.mark.bound(400)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["nproc", "logical"])
def test_a_killed_run_ends_as_the_one_that_was_not(way: str, tmp_path: Path) -> None:
    config = student(tmp_path)
    whole, run = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    done = train(config, whole, *WAYS[way])
    assert done.returncode == 0, done.stderr
    last = train_and_kill(config, run, 0, STEPS, *WAYS[way])
    assert STEPS < last < STEPS * EPOCHS
    resumed = train(config, run, *WAYS[way], "--resume", "must")
    assert resumed.returncode == 0, resumed.stderr
    assert f"resumes after step {last}" in resumed.stdout
    same(end_of(whole), end_of(run))


@pytest.mark.bound(120)
def test_a_teacher_that_is_not_there_ends_all_workers(tmp_path: Path) -> None:
    config = student(tmp_path)
    (tmp_path / "teacher.keras").unlink()
    done = train(config, RunDir(tmp_path / "run"), "--nproc", "2")
    assert done.returncode == 2, done.stderr
    assert "fit.distill.teacher: There is no model" in done.stderr and "config.yaml" in done.stderr


def said_by(folder: Path) -> list[tuple[int, bytes]]:
    """The records of a folder of outputs: the number of each sample, and its outputs."""
    found = []
    for file in json.loads((folder / "outputs.json").read_text())["files"]:
        for record in tf.data.TFRecordDataset(str(folder / file["name"])):
            feature = tf.train.Example.FromString(record.numpy()).features.feature
            values = np.array(feature["output"].float_list.value, np.float32)
            found.append((feature["index"].int64_list.value[0], values.tobytes()))
    return found


@pytest.mark.slow
@pytest.mark.bound(400)
def test_a_training_by_kept_outputs(tmp_path: Path) -> None:
    """Of a prediction that was killed on two workers and ended on one; and a plain pipeline reads the same."""
    config = student(tmp_path, model=PLAIN, fit={"epochs": 2, "distill": {"teacher": "teacher.keras"}})
    command = ["data", "predict", tmp_path / "teacher.keras", "--data", f"{config}:train", "-o", tmp_path / "said"]
    whole = tfdist(*command[:-1], tmp_path / "whole", "--nproc", 2, "--shards", 3, timeout=120)
    assert whole.returncode == 0, whole.stderr
    assert "203 samples, all of them now" in whole.stdout and "output float32[4]" in whole.stdout
    parts = tmp_path / "said.parts" / "manifest.json"

    def kept() -> int:
        try:
            return len(json.loads(parts.read_text())["parts"])
        except FileNotFoundError:
            return 0

    with begun(*command, "--nproc", 2, "--part-samples", 8) as process:
        until(lambda: kept() > 0, 100, "no part came")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    assert not (tmp_path / "said").exists()
    ended = tfdist(*command, "--shards", 3, timeout=120)
    assert ended.returncode == 0, ended.stderr
    one, other = said_by(tmp_path / "whole"), said_by(tmp_path / "said")
    assert [number for number, _ in one] == list(range(SAMPLES)) == [number for number, _ in other]
    with np.load(tmp_path / "data.npz") as arrays:
        expected = keras.models.load_model(tmp_path / "teacher.keras").predict(arrays["x_train"], verbose=0)
    for said in (one, other):
        values = np.array([np.frombuffer(output, np.float32) for _, output in said])
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    ends = []
    for name, options in (("live", []), ("kept", ["--set", f"fit.distill.teacher={{outputs: {tmp_path / 'said'}}}"])):
        run = RunDir(tmp_path / name)
        done = train(config, run, "--nproc", "2", *options)
        assert done.returncode == 0, done.stderr
        ends.append(end_of(run))
    same_but_for_rounding(*ends)


@pytest.mark.slow
@pytest.mark.bound(120)
def test_outputs_that_are_there_already(tmp_path: Path) -> None:
    config = student(tmp_path)
    command = ["data", "predict", tmp_path / "teacher.keras", "--data", f"{config}:train", "-o", tmp_path / "said"]
    assert tfdist(*command, timeout=60).returncode == 0
    refused = tfdist(*command, timeout=60)
    assert refused.returncode == 2 and "said exists already. Expected a new folder" in refused.stderr
    before = said_by(tmp_path / "said")
    again = tfdist(*command, "--overwrite", "--shards", 500, timeout=60)
    assert again.returncode == 0, again.stderr
    assert said_by(tmp_path / "said") == before and len(list((tmp_path / "said").glob("*.tfrecord"))) == SAMPLES
