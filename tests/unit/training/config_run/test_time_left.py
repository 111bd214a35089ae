"""The time that is left of an epoch and of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.training.config_run.time_left import Pace, TimeLeft, time_left


@pytest.mark.parametrize(
    ("pace", "options", "left"),
    [
        (Pace(0.5), {"done": 4, "epochs_after": 2}, TimeLeft(3.0, 13.0)),
        (Pace(0.5, 2.0), {"done": 4, "epochs_after": 2}, TimeLeft(5.0, 19.0)),
        (Pace(0.5, 2.0), {"done": 10, "epochs_after": 1, "resting": 1.5}, TimeLeft(0.5, 7.5)),
        # A validation that takes longer than the last one is not over before it ends.
        (Pace(0.5, 2.0), {"done": 10, "epochs_after": 0, "resting": 3.0}, TimeLeft(0.0, 0.0)),
    ],
)
def test_time_left(pace: Pace, options: dict[str, Any], left: TimeLeft) -> None:
    assert time_left(pace, steps=10, **options) == left
