"""`tfdist data shard` with its processes, each of which loads TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tfdist.data.random_access.tfrecord_reader import TFRecordReader


def run(folder: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfdist", "data", *arguments.split()]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150)


@pytest.mark.slow
@pytest.mark.bound(240)
def test_shards_are_made_once_and_checked(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.ones((50, 3)), y_train=np.arange(50))
    first = run(tmp_path, "shard a.npz shards --shards 3 --processes 2")
    assert (first.returncode, first.stderr) == (0, "train: samples\n")  # nothing of what TensorFlow says at its start
    section = yaml.safe_load(first.stdout.partition("\n\n")[2])["data"]["train"]
    assert section["features"] == {"x": {"dtype": "float32", "shape": [3]}, "y": {"dtype": "int64"}}
    paths = tuple(sorted((tmp_path / "shards").glob("*.tfrecord")))
    assert len(paths) == 3 and len(TFRecordReader(paths)) == 50
    again = run(tmp_path, "shard a.npz shards")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert again.stderr == "3 of 3 shards are finished already and stay\n"
    checked = run(tmp_path, "check shards/*.tfrecord")
    assert (checked.returncode, checked.stdout.splitlines()[-1][:20]) == (0, "3 files, 50 records,")
