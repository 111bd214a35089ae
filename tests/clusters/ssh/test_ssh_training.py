"""A training over ssh on two hosts, with TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.clusters.ssh.launches import MakeHosts

_CONFIG = """\
name: line
seed: 7
model: {build: tfdist.models.mlp, args: {inputs: [4], hidden: [8], classes: 2}}
compile: {optimizer: {name: adam, learning_rate: 0.05}, loss: sparse_categorical_crossentropy}
data: {batch_size: 16, train: {format: npz, path: line.npz, split: train}}
fit: {epochs: 12}
"""


def history(run: Path) -> list[float]:
    found: list[float] = json.loads((run / "history.json").read_text())["loss"]
    return found


@pytest.mark.bound(200)
def test_two_hosts_train_as_one(ssh_hosts: MakeHosts) -> None:
    """With the numbers of one worker, up to rounding."""
    launches = ssh_hosts(2, stand_in=False)
    x = np.random.default_rng(7).normal(size=(50, 4)).astype("float32")
    np.savez(launches.folder / "line.npz", x_train=x, y_train=(x.sum(axis=1) > 0).astype("int64"))
    (launches.folder / "line.yaml").write_text(_CONFIG)
    launch = launches.launch("--run-dir", "two", "line.yaml")
    assert launch.end(150) == 0, launch.err
    alone = launches.start("train", "--run-dir", "one", "line.yaml")
    assert alone.end(100) == 0, alone.err
    first, *_, last = history(launches.folder / "one")
    assert last < 0.9 * first, "a loss that stays shows nothing"
    assert history(launches.folder / "two") == pytest.approx(history(launches.folder / "one"), rel=1e-5)
    assert {log.name for log in (launches.folder / "two/logs").iterdir()} == {"worker-0.0.log", "worker-1.0.log"}
