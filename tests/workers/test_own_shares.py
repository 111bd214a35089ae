"""`auto_shard_dataset=False`: each worker gives its own rows, and one device with all of them has the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import UNCHECKED, tfdist
from tests.helpers.marks import slow

SCRIPT = Path(__file__).with_name("own_share_training.py")
BOUND = 300


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("workers", "kinds"), [(2, ("data", "model")), slow(2, ("last", "python")), slow(4, ("groups",))]
)
def test_numbers_of_one_device(workers: int, kinds: tuple[str, ...], tmp_path: Path) -> None:
    found = []
    for count in (1, workers):
        options = ("--nproc", count, *UNCHECKED, "--run-dir", tmp_path / str(count))
        done = tfdist("train", *options, SCRIPT, *kinds, timeout=BOUND)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    paths = keras.tree.flatten_with_path(found[0])
    for (path, expected), (_, own) in zip(paths, keras.tree.flatten_with_path(found[1]), strict=True):
        np.testing.assert_allclose(own, expected, 1e-9, 1e-9, err_msg=str(path))
