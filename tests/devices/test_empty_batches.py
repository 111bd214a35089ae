"""Loops by hand whose last batch leaves a replica without a row, by the kernels that cannot compute of none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from tests.helpers.waiting import PATIENCE


def test_convolutions_and_poolings_of_no_row_end_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.devices.empty_batches"],
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"},
        capture_output=True,
        text=True,
        timeout=100 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    of_one, of_two = map(json.loads, done.stdout.splitlines()[-2:])
    for two, one in zip(of_two, of_one, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5)
