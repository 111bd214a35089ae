"""Samples of a generator of which the 300th waits for a file: predictions can be killed while they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.helpers.waiting import until

SAMPLES, WAITS = 450, 300


def samples() -> Iterator[tuple[np.ndarray, np.int64]]:
    x = np.load("450.npz")["x_train"]
    for number, sample in enumerate(x):
        if number == WAITS:
            until(Path("gate").exists, 120, "there is no gate")
        yield sample, np.int64(0)
