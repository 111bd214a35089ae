"""Checks that refuse to resume a fit."""

from __future__ import annotations

import pytest

from tfdist.errors import RunDirError, UnsupportedError
from tfdist.keras_repairs.inputs.data_position import FitData
from tfdist.training.checkpoints.fit_checkpoint_callback import (
    check_executions,
    check_optimizers,
    check_same_data,
    epoch_ends_only,
)

ARRAYS = FitData("arrays", 5, 8, 40, {"samples": 40, "seed": 3})
SAVED = {"kind": "arrays", "samples": 40, "seed": 3}


def test_the_same_data_resume() -> None:
    check_same_data(SAVED, ARRAYS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 41}, "another samples: 41.*Received: 40"),
        ({"seed": 4}, "another seed: 4.*Received: 3. Start it with the --run-dir of that run"),
        ({"kind": "a generator"}, "another kind: a generator.*Received: arrays"),
        ({"batch_size": 8}, "another batch_size: 8.*Received: None"),
    ],
)
def test_other_data_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(RunDirError, match=message):
        check_same_data({**SAVED, **change}, ARRAYS)


def test_executions_begin_where_they_ended() -> None:
    check_executions(6, 8, 3)
    check_executions(8, 8, 3)  # the last one had fewer steps
    check_executions(5, 0, 1)
    with pytest.raises(RunDirError, match="after 4 steps of an epoch.*Received: 3"):
        check_executions(4, 8, 3)


def test_an_optimizer_that_is_not_built_is_refused_with_what_to_call() -> None:
    check_optimizers([4, 6], [4, 6])
    with pytest.raises(UnsupportedError, match=r"optimizer.build\(variables\)"):
        check_optimizers([4, 6], [4, 0])


def test_why_not_within_an_epoch_is_said() -> None:
    assert "its data is a tf.data.Dataset, and it calls Python code." in epoch_ends_only(
        FitData("a tf.data.Dataset", None, why_not="it calls Python code")
    )
