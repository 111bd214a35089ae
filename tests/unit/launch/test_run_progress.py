"""What the chief tells its launcher of its progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfdist.errors import RunDirError
from tfdist.launch.run_progress import RunProgress
from tfdist.rundir import State

TOLD = RunProgress(State.STEP, 2, 10, 120, 469, {"loss": "nan"}, rate=8412.0, epoch_left=12.0, run_left=245.0)


def test_it_comes_as_it_was_sent() -> None:
    assert RunProgress.from_dict(json.loads(json.dumps(TOLD.to_dict()))) == TOLD


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "flying"},
        {"epoch": "2"},
        {"steps": "many"},
        {"rate": float("nan")},
        {"run_left": float("inf")},
        {"metrics": [1]},
        {"metrics": {"loss": 0.5}},
    ],
)
def test_what_is_no_progress(fields: dict[str, Any]) -> None:
    with pytest.raises(RunDirError):
        RunProgress.from_dict({**TOLD.to_dict(), **fields})
