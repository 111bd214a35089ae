"""Without a repair its case fails: so the repair does something, and the test of the case would see it go."""

from __future__ import annotations

import pytest

from tests.devices.mirrored import mirrored
from tests.devices.test_exactness import of_one_replica
from tests.exactness.cases import outcome
from tests.exactness.comparing import assert_same
from tfdist.keras_repairs.install import repairs

SAMPLES = 65

TAKEN_OUT = [
    ("TensorFlowTrainer._maybe_symbolic_build", "strings"),
    ("TensorFlowTrainer._make_function", "plain"),
    ("Layer.add_loss", "regularizers"),
    ("Layer._get_own_losses", "regularizers"),
    ("Trainer.compute_loss", "regularizers"),
    ("keras.src.losses.loss.reduce_weighted_values", "mask_of_an_embedding"),
    ("keras.src.losses.loss.unscale_loss_for_distribution", "plain"),
    ("MeanMetricWrapper.update_state", "metrics_of_ones_own"),
    ("keras.src.backend.tensorflow.nn.conv", "convolutions_in_float32"),
    ("keras.src.backend.tensorflow.nn.depthwise_conv", "convolutions_in_float32"),
    ("TFOptimizer._backend_apply_gradients", "global_clipnorm"),
    ("TFOptimizer._all_reduce_sum_gradients", "plain"),
]
"""The repair to take out, and the case that shows it."""


@pytest.mark.bound(120)
@pytest.mark.parametrize(("path", "name"), TAKEN_OUT)
def test_case_fails_without_its_repair(path: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = of_one_replica(name, SAMPLES)
    take_out(path, monkeypatch)
    with mirrored(3).scope(), pytest.raises(Exception):  # noqa: B017 (a wrong number, or whatever Keras then raises)
        assert_same(expected, outcome(name, SAMPLES))


def test_one_replica_steps_without_data_when_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """On several replicas what Keras does here depends on the moment; on one it always counts a step too many."""
    expected = of_one_replica("dataset_of_unknown_size", SAMPLES)
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    assert outcome("dataset_of_unknown_size", SAMPLES)["iterations"] > expected["iterations"]


def take_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts Keras's own function back until the test ends."""
    (repair,) = (repair for repair in repairs() if repair.path == path)
    repaired = getattr(repair.owner, repair.name)
    monkeypatch.setattr(repair.owner, repair.name, repaired.__wrapped__)
