from __future__ import annotations

import math

import pytest

from tests.unit.verify.replicas.recordings import begin, recording, step, weights
from tfdist.training.probes.probe_files import Recording
from tfdist.verify.replicas.recording_comparison import Comparison, Tolerance, compare

TOLERANCE = Tolerance(1e-5)
ONE = recording(begin(), step(1), step(2))


def of(other: Recording, *more: Recording, tolerance: Tolerance = TOLERANCE) -> Comparison:
    return compare(ONE, [other, *more], tolerance)


def test_the_same() -> None:
    comparison = of(ONE)
    assert comparison.passed and comparison.first() is None
    assert [row.step for row in comparison.rows] == [0, 1, 2]
    assert {d.kind for d in comparison.rows[1].differences} == {"data", "loss", "gradient norm", "weights"}


def test_rounding_passes() -> None:
    assert of(recording(begin(), step(1, loss=1 + 5e-6), step(2, norm=2 + 1e-5))).passed
    assert not of(recording(begin(), step(1, loss=1 + 5e-6), step(2, norm=2 + 1e-4))).passed


def test_the_first_difference_and_its_place() -> None:
    other = weights(kernel=[1.0, -1.1], bias=0.4)
    comparison = of(recording(begin(), step(1), step(2, loss=1.1, weights=other)))
    first, weight = comparison.first(), comparison.first("weights")
    assert first is not None and weight is not None
    assert (first.step, first.kind, first.name, first.reference, first.other) == (2, "loss", "loss", 1.0, 1.1)
    # Of the weights that part in one step the one that is farthest away.
    assert (weight.step, weight.name) == (2, "bias")
    assert [d.name for d in comparison.rows[2].parted("weights")] == ["bias", "kernel"]


def test_causes_come_before_effects() -> None:
    comparison = of(recording(begin(), step(1, loss=9.0, data=3.1), step(2)))
    first = comparison.first()
    assert first is not None and first.kind == "data"


def test_data_have_no_tolerance_for_rounding() -> None:
    assert of(recording(begin(), step(1, data=3 + 1e-10), step(2))).passed
    assert not of(recording(begin(), step(1, data=3 + 1e-7), step(2))).passed


def test_quantities_of_only_one_run_are_not_compared() -> None:
    assert of(recording(begin(), step(1, norm=None, data=None), step(2, norm=None))).passed


def test_a_metric_that_one_run_lacks_is_a_difference() -> None:
    first = of(recording(begin(), step(1, values={"loss": 1.0, "accuracy": 0.5}), step(2))).first()
    assert first is not None and (first.kind, first.name, first.relative) == ("metrics", "accuracy", math.inf)


def test_a_weight_that_one_run_lacks_is_a_difference_after_a_step() -> None:
    late = recording(begin(weights={}), step(1), step(2))
    assert of(late).passed
    first = of(recording(begin(), step(1, weights=weights(kernel=[1.0, -1.0])), step(2))).first()
    assert first is not None and (first.kind, first.name, first.relative) == ("weights", "bias", math.inf)


def test_runs_of_different_length_part_at_their_common_end() -> None:
    first = of(recording(begin(), step(1))).first()
    assert first is not None and (first.kind, first.step, first.reference, first.other) == ("steps", 1, 2, 1)


def test_a_worker_that_trained_for_fewer_steps_than_the_chief() -> None:
    first = of(ONE, recording(begin(), step(1))).first()
    assert first is not None and (first.kind, first.step, first.reference, first.other) == ("steps", 2, 2, 1)


def test_workers_hold_the_same_weights() -> None:
    assert of(ONE, ONE).passed
    away = recording(begin(), step(1, weights=weights(kernel=[1.0, -1.0], bias=0.6)), step(2))
    first = of(ONE, away).first()
    assert first is not None and (first.kind, first.name, first.step) == ("copies", "bias", 1)
    within = recording(begin(), step(1, differences={"bias": 0.05}), step(2))
    first = of(within).first()
    assert first is not None and (first.kind, first.name, first.relative) == ("copies", "bias", pytest.approx(0.1))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_copies_with_elements_that_are_not_finite(odd: float) -> None:
    """An element that is not finite on every replica says nothing of the magnitude of the others."""
    parted = step(1, weights=weights(kernel=[odd, -1.0], bias=0.5), differences={"kernel": 0.05})
    made = recording(begin(), parted, step(2))
    first = compare(made, [made], TOLERANCE).first()
    assert first is not None and (first.kind, first.relative) == ("copies", pytest.approx(0.05))


def test_a_weight_near_zero_is_related_to_the_magnitude_of_the_others() -> None:
    """Such as a bias that one run leaves at 0 and the other moves by the rounding of a gradient that is 0."""
    one, two = (
        recording(begin(), step(1, weights=weights(kernel=[1.0, -1.0], bias=bias)), step(2)) for bias in (0.0, 1e-9)
    )
    assert compare(one, [two], TOLERANCE).passed


def test_quantities_that_are_not_judged_are_never_differences() -> None:
    tolerance = Tolerance(1e-5, measured={(1, "loss", "loss"): 0.5, (2, "loss", "loss"): 0.5})
    comparison = of(recording(begin(), step(1, loss=9.0), step(2, loss=9.0)), tolerance=tolerance)
    assert comparison.passed
    largest = comparison.largest("loss")
    assert largest is None
