from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.verify.replicas.recordings import NO_FACTS, begin, recording, step, weights
from tfdist.training.probes.probe_files import Moment
from tfdist.verify.replicas.likely_causes import Cause, ModelFacts, Versus, likely_causes
from tfdist.verify.replicas.recording_comparison import Tolerance, compare

MOVED = weights(kernel=[1.0, -1.2], bias=0.5)
METRIC = {"loss": 1.0, "largest": 2.0}


def causes(
    other: list[Moment], versus: Versus = "replicas", one: list[Moment] | None = None, replicas: int = 2, **facts: Any
) -> list[Cause]:
    """The causes for a run whose moments are given, against a plain one."""
    reference = recording(*(one or [begin(), step(1), step(2)]))
    comparison = compare(reference, [recording(*other)], Tolerance())
    return likely_causes(comparison, ModelFacts.of([{**NO_FACTS, **facts}]), versus, replicas)


@pytest.mark.parametrize(
    ("other", "options", "expected"),
    [
        ([begin(), step(1), step(2)], {}, []),
        ([begin(), step(1), step(2)], {"unsynchronized": ["a"]}, []),
        # Before anything else: what a run begins with.
        ([begin(weights=MOVED), step(1, loss=2), step(2)], {"unsynchronized": ["a"]}, ["initialisation"]),
        ([begin(), step(1, loss=2, data=9), step(2)], {"unsynchronized": ["a"]}, ["data"]),
        ([begin(), step(1)], {}, ["steps"]),
        ([begin(), step(1), step(2, differences={"bias": 0.1})], {}, ["copies"]),
        # Layers that are known to differ.
        ([begin(), step(1, loss=1.1), step(2)], {"unsynchronized": ["a"]}, ["batch statistics"]),
        ([begin(), step(1, weights=MOVED), step(2)], {"unsynchronized": ["b"]}, ["batch statistics"]),
        (
            [begin(), step(1, differences={"kernel": 0.1}), step(2)],
            {"unsynchronized": ["b"], "non_trainable": ["kernel"]},
            ["batch statistics"],
        ),
        # A step of the user's own.
        ([begin(), step(1, norm=1.0), step(2)], {"overrides": ["M.train_step"]}, ["own step scales"]),
        ([begin(), step(1, norm=4.1), step(2)], {"overrides": ["M.train_step"]}, ["own step scales"]),
        ([begin(), step(1, norm=1.5), step(2)], {"overrides": ["M.train_step"]}, ["own step"]),
        ([begin(), step(1, loss=1.2), step(2)], {"overrides": ["M.train_step"]}, ["own step"]),
        # What else does not add up over the replicas.
        ([begin(), step(1, loss=0.5, norm=1.0), step(2)], {}, ["summed"]),
        ([begin(), step(1, loss=1.2), step(2)], {}, ["whole batch"]),
        ([begin(), step(1, weights=MOVED), step(2)], {"non_trainable": ["kernel"]}, ["state"]),
        ([begin(), step(1, weights=MOVED), step(2)], {}, ["unknown"]),
        ([begin(), step(1), step(2, loss=1.2)], {}, ["unknown"]),
        # Rounding that is a little more than was seen.
        ([begin(), step(1, loss=1 + 3e-5), step(2)], {}, ["rounding"]),
        ([begin(), step(1), step(2, loss=1 + 1e-3)], {}, ["rounding"]),
        ([begin(), step(1, loss=1.2), step(2)], {"compute_dtypes": ["bfloat16", "float32"]}, ["16 bits"]),
        ([begin(), step(1, norm=math.inf), step(2)], {"compute_dtypes": ["float16"]}, ["float16"]),
        # Other comparisons.
        ([begin(), step(1, loss=1.2), step(2)], {"versus": "xla"}, ["xla"]),
        ([begin(), step(1, loss=1.2), step(2)], {"versus": "precision"}, ["precision"]),
        ([begin(), step(1, loss=1.2), step(2)], {"versus": "communication"}, ["communication"]),
        ([begin(), step(1, loss=1.2), step(2)], {"versus": "again"}, ["irreproducible"]),
        ([begin(), step(1, data=1.2), step(2)], {"versus": "again"}, ["data"]),
        ([begin(), step(1)], {"versus": "again"}, ["steps"]),
        ([begin(weights=MOVED), step(1), step(2)], {"versus": "again"}, ["initialisation"]),
    ],
)
def test_the_likely_cause(other: list[Moment], options: dict[str, Any], expected: list[str]) -> None:
    assert [cause.key for cause in causes(other, **options)] == expected


def test_only_metrics_differ() -> None:
    one = [begin(), step(1, values=METRIC), step(2, values=METRIC)]
    other = [begin(), step(1, values=METRIC), step(2, values={"loss": 1.0, "largest": 1.5})]
    (cause,) = causes(other, one=one, unsynchronized=["a"])
    assert cause.key == "metric"
    assert "largest" in cause.text


def test_the_text_has_names_and_numbers() -> None:
    (cause,) = causes([begin(), step(1, loss=1.1), step(2)], unsynchronized=["a", "b", "c", "d", "e", "f"])
    assert "a, b, c, d and 2 more" in cause.text
    (cause,) = causes([begin(), step(1, norm=2 / 3), step(2)], overrides=["M.train_step"], replicas=3)
    assert "M.train_step reduces or scales by itself" in cause.text
    assert "1/3 of those of one replica" in cause.text


def test_the_facts_of_several_models_are_merged() -> None:
    facts = ModelFacts.of([{**NO_FACTS, "unsynchronized": ["a"]}, {**NO_FACTS, "unsynchronized": ["a", "b"]}])
    assert facts.unsynchronized == ("a", "b")
    assert not facts.half
