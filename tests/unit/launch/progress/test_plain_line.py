"""The line that shows a run's progress where no bar can be drawn."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.progress.plain_line import plain_line
from tfdist.launch.progress.run_progress import RunProgress
from tfdist.rundir import State

METRICS = {"loss": "0.2311", "accuracy": "0.9342"}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"steps": 469, "metrics": METRICS, "rate": 8412.4, "epoch_left": 12.0, "run_left": 245.0, "waited": 0.07},
            "epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8,412 samples/s  0:12 left, run 4:05  input 7 %",
        ),
        # A wait that is not worth a word.
        (
            {"steps": 469, "metrics": METRICS, "rate": 8.44, "waited": 0.05},
            "epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8.4 samples/s",
        ),
        ({"epoch": 9, "steps": 120, "epoch_left": 3.0, "run_left": 3.0}, "epoch 10/10  step 120/120  0:03 left"),
        ({"state": State.COMPILING, "step": 0, "steps": 469}, "epoch  3/10  step   0/469  compiling"),
        (
            {"state": State.EVALUATING, "steps": 120, "validated": 3, "validation_steps": 23},
            "epoch  3/10  step 120/120  validating 3/23",
        ),
        ({"state": State.EVALUATING, "validated": 3}, "epoch  3/10  step 120  validating 3"),
        ({"state": State.SAVING}, "epoch  3/10  step 120  saving"),
        ({"state": State.CALLBACK}, "epoch  3/10  step 120  in callbacks"),
        ({"gpu_memory": 13_207_024_435}, "epoch  3/10  step 120  GPU 12.3 GiB"),
        ({"metrics": {"a\x1b[2Jb": "1"}}, "epoch  3/10  step 120  a?[2Jb 1"),
    ],
)
def test_plain_line(fields: dict[str, Any], line: str) -> None:
    known = {"state": State.STEP, "epoch": 2, "epochs": 10, "step": 120}
    assert plain_line(RunProgress(**{**known, **fields})) == line
