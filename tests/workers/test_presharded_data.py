"""Workers whose data is their own share already: unequal shares train exactly, and are never dealt once more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.cli_process import tfdist
from tfdist.order.per_worker_order import WorkerShareSteps
from tfdist.order.sequential_order import LaneOrder, Lanes

SCRIPT = Path(__file__).parent / "scripts" / "shares.py"
SIZES = (53, 20)
BATCH = 16


def write(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """The share of each worker, in a file of its own."""
    random = np.random.default_rng(1)
    shares = []
    for worker, size in enumerate(SIZES):
        x = random.normal(size=(size, 3)).astype(np.float32)
        y = (x @ [1.0, -2.0, 0.5] + worker).astype(np.float32)
        shares.append((x, y))
        with tf.io.TFRecordWriter(str(folder / f"worker-{worker}.tfrecord.gz"), "GZIP") as writer:
            for values, label in zip(x.tolist(), y.tolist(), strict=True):
                feature = {"x": _feature(values), "y": _feature([label])}
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return shares


def _feature(values: list[float]) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def global_batches(shares: list[tuple[np.ndarray, np.ndarray]], epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What one replica would train on: in each step, the samples that the shares give to it."""
    steps = WorkerShareSteps(SIZES, BATCH, len(SIZES))
    orders = [LaneOrder(Lanes.of((size,)), BATCH // len(SIZES), 3, True) for size in SIZES]
    pieces = [steps.pieces(0, len(steps), [worker]) for worker in range(len(SIZES))]
    for step in range(len(steps)):
        places = [orders[worker].at(epoch, np.arange(*pieces[worker][step])) for worker in range(len(SIZES))]
        yield tuple(np.concatenate([shares[worker][part][places[worker]] for worker in (0, 1)]) for part in (0, 1))


@pytest.mark.slow
@pytest.mark.bound(120)
def test_unequal_shares_give_the_numbers_of_one_replica(tmp_path: Path) -> None:
    shares = write(tmp_path)
    done = tfdist("train", "--nproc", 2, "--run-dir", tmp_path / "run", SCRIPT, tmp_path, "twice", timeout=100)
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    losses = []
    for epoch in range(3):
        batches = list(global_batches(shares, epoch))
        assert [len(y) for _, y in batches] == [16, 16, 16, 16, 9]
        specs = (tf.TensorSpec([None, 3]), tf.TensorSpec([None]))
        dataset = tf.data.Dataset.from_generator(lambda kept=batches: iter(kept), output_signature=specs)
        losses += model.fit(dataset, verbose=0).history["loss"]
    assert said["history"]["loss"] == pytest.approx(losses, rel=1e-5)
    for received, expected in zip(said["weights"], model.get_weights(), strict=True):
        np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)

    assert said["missing"].startswith("Worker 1 cannot open the data, and the others can. Worker 1 says: No such file")
    parts = ["worker 0 has 1 file (worker-0.tfrecord.gz), 53 samples; worker 1 has 1 file (worker-1", "sharding: none"]
    assert all(part in said["twice"] and part in done.stderr for part in parts)
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
