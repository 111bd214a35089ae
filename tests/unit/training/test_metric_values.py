"""Metrics as they are shown."""

from __future__ import annotations

from tfdist.training.metric_values import metrics_line


def test_losses_come_first_and_training_before_validation() -> None:
    values = {"accuracy": 0.98765, "val_accuracy": 0.5, "val_loss": 12.5, "loss": 0.25}
    assert metrics_line(values) == "loss 0.2500  accuracy 0.9877  val_loss 12.5000  val_accuracy 0.5000"


def test_small_values_keep_their_digits() -> None:
    assert metrics_line({"loss": 0.0, "b": 0.00012345, "c": -2e-9}) == "loss 0.0000  b 1.234e-04  c -2.000e-09"


def test_what_is_no_number() -> None:
    assert metrics_line({"loss": float("nan"), "b": float("-inf")}) == "loss nan  b -inf"
