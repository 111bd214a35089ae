"""The best epoch of a history."""

from __future__ import annotations

import math

import pytest

from tfdist.training.config_run.run_summary import best_epoch


@pytest.mark.parametrize(
    ("history", "best"),
    [
        ({"loss": [3.0, 1.0], "val_loss": [0.5, 0.75]}, ["epoch 1, val_loss 0.5000"]),
        ({"loss": [3.0, 1.0], "accuracy": [0.5, 0.25]}, ["epoch 2, loss 1.0000"]),
        ({"loss": [math.nan, 2.0, math.inf, 2.0]}, ["epoch 2, loss 2.0000"]),
        ({"loss": [math.nan]}, []),
        ({"accuracy": [0.5]}, []),
        ({}, []),
    ],
)
def test_best_epoch(history: dict[str, list[float]], best: list[str]) -> None:
    assert list(best_epoch(history)) == best


def test_epochs_without_a_validation_count() -> None:
    history = {"loss": [3.0, 2.0, 1.0, 0.5], "val_loss": [0.3, 0.2]}
    assert list(best_epoch(history, lambda epoch: epoch % 2 == 1)) == ["epoch 4, val_loss 0.2000"]
