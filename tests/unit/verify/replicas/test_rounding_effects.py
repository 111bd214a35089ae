from __future__ import annotations

import math

import pytest

from tests.unit.verify.replicas.recordings import begin, recording, step, weights
from tfdist.verify.replicas.recording_comparison import (
    FLOAT32,
    HALF,
    MARGIN,
    QuantityKind,
    Tolerance,
    compare,
    measure_tolerance,
    reproduced,
)

ONE = recording(begin(), step(1), step(2), step(3))
MEASURED = {(1, "loss", "loss"): 1e-4, (1, "weights", "bias"): 0.3}


@pytest.mark.parametrize(
    ("tolerance", "number", "kind", "name", "expected"),
    [
        (Tolerance(), 1, "loss", "loss", FLOAT32),
        (Tolerance(1e-3), 1, "loss", "loss", 1e-3),
        (Tolerance(), 1, "data", "data", 1e-9),
        (Tolerance(0.5), 1, "data", "data", 1e-9),  # data are the same or not
        (Tolerance(0.5), 0, "weights", "bias", FLOAT32),  # nothing has been computed yet
        (Tolerance(1e-7), 0, "weights", "bias", 1e-7),
        (Tolerance(0.5), 3, "copies", "bias", FLOAT32),
        (Tolerance(0.5, measured={(3, "steps", "steps"): math.inf}), 3, "steps", "steps", 0.0),
        (Tolerance(measured=MEASURED), 1, "loss", "loss", MARGIN * 1e-4),
        (Tolerance(measured=MEASURED), 1, "gradient norm", "gradient norm", FLOAT32),
        (Tolerance(measured=MEASURED), 1, "weights", "bias", math.inf),  # moved by rounding alone
        (Tolerance(HALF, half=True), 1, "loss", "loss", HALF),
        (Tolerance(HALF, half=True), 1, "weights", "bias", math.inf),
        (Tolerance(HALF, half=True), 0, "weights", "bias", FLOAT32),
    ],
)
def test_what_is_allowed(tolerance: Tolerance, number: int, kind: QuantityKind, name: str, expected: float) -> None:
    assert tolerance.allowed(number, kind, name) == pytest.approx(expected)


def test_ten_times_the_measured_rounding_is_allowed_from_its_step_on() -> None:
    perturbed = recording(begin(), step(1), step(2, loss=1 + 1e-4), step(3))
    tolerance = measure_tolerance(ONE, perturbed, half=False)
    assert compare(ONE, [recording(begin(), step(1), step(2), step(3, loss=1 + 9e-4))], tolerance).passed
    assert not compare(ONE, [recording(begin(), step(1), step(2), step(3, loss=1 + 2e-3))], tolerance).passed
    assert not compare(ONE, [recording(begin(), step(1, loss=1 + 9e-4), step(2), step(3))], tolerance).passed


def test_a_weight_that_rounding_alone_moves_is_not_judged_and_the_others_are() -> None:
    def with_bias(bias: float, kernel: float = 1.0) -> list:
        moved = weights(kernel=[kernel, -1.0], bias=bias)
        return [begin(), step(1, weights=moved), step(2), step(3)]

    tolerance = measure_tolerance(recording(*with_bias(0.1)), recording(*with_bias(-0.1)), half=False)
    assert compare(recording(*with_bias(0.1)), [recording(*with_bias(0.05))], tolerance).passed
    assert not compare(recording(*with_bias(0.1)), [recording(*with_bias(0.05, kernel=1.01))], tolerance).passed


@pytest.mark.parametrize(
    ("perturbed", "passes"),
    [
        (recording(begin(), step(1, loss=1 + 1e-5), step(2, loss=1.5), step(3, loss=9.0)), True),  # rounding grows
        (recording(begin(), step(1, loss=1.01), step(2), step(3)), False),
        (recording(begin(), step(1, norm=2.01), step(2), step(3)), False),
        (recording(begin(), step(1), step(2, data=4.0), step(3)), False),
        (recording(begin(), step(1), step(2)), False),
        (recording(begin(), step(1)), False),
        (recording(begin(weights=weights(kernel=[1.0, -1.1], bias=0.5)), step(1), step(2), step(3)), False),
    ],
    ids=["rounding", "loss", "gradient", "data", "sooner", "after one step", "initial weights"],
)
def test_whether_a_training_can_be_repeated(perturbed: object, passes: bool) -> None:
    assert reproduced(ONE, perturbed, half=False).passed == passes


def test_in_16_bits_the_first_step_may_differ_more() -> None:
    perturbed = recording(begin(), step(1, loss=1.01), step(2), step(3))
    assert reproduced(ONE, perturbed, half=True).passed
