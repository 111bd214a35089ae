"""Outputs of an artefact beside Keras's: differences, labels, and what must be equal."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfdist.training.artifacts.output_comparison import LabelRule, compare_output, label_rule, shows_nothing

PROBABILITIES = np.array([[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]], np.float32)


def test_the_greatest_difference_and_its_sample() -> None:
    found = compare_output("p", PROBABILITIES, PROBABILITIES + np.float32([[0, 0], [0, -0.3], [0.1, 0]]), "argmax")
    assert found.difference == pytest.approx(0.3, rel=1e-5) and found.sample == 1
    assert (found.same_labels, found.labels) == (2, 3)


def test_large_numbers_differ_by_their_magnitude() -> None:
    ours = np.array([[2000.0], [-4000.0]])
    assert compare_output("x", ours, ours + 4).difference == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        ([math.nan, 1.0], [math.nan, 1.0], 0.0),
        ([math.inf, 1.0], [math.inf, 1.0], 0.0),
        ([math.nan], [0.0], math.inf),
        ([0.0], [math.nan], math.inf),
        ([math.inf], [-math.inf], math.inf),
        ([1, 2], [1, 3], math.inf),
        ([1, 2], [1, 2], 0.0),
        ([b"a"], [b"b"], math.inf),
        ([True], [True], 0.0),
        ([1.0], [[1.0]], math.inf),
        ([1.0], [1], math.inf),
    ],
)
def test_what_must_be_equal(ours: list, theirs: list, difference: float) -> None:
    assert compare_output("x", np.array(ours), np.array(theirs)).difference == difference


def test_widths_of_numbers_may_differ() -> None:
    assert compare_output("x", np.array([1, 2], np.int64), np.array([1, 2], np.int32)).difference == 0
    assert compare_output("x", np.zeros(2, np.float32), np.zeros(2, np.float16)).difference == 0


@pytest.mark.parametrize(
    ("output", "loss", "activation", "rule"),
    [
        (PROBABILITIES, "", "", "argmax"),
        (PROBABILITIES - 1, "", "", None),
        (PROBABILITIES - 1, "sparse_categorical_crossentropy", "", "argmax"),
        (PROBABILITIES[:, :1], "", "sigmoid", "half"),
        (PROBABILITIES[:, :1], "binary_crossentropy", "", "half"),
        (PROBABILITIES[:, :1] * 9 - 3, "binary_crossentropy", "", "sign"),
        (PROBABILITIES[:, :1], "mse", "linear", None),
        (np.arange(4).reshape(2, 2), "", "", None),
    ],
)
def test_what_is_a_classifier(output: np.ndarray, loss: str, activation: str, rule: LabelRule | None) -> None:
    assert label_rule(output, loss, activation) == rule


NAN = np.full((3, 2), math.nan)
SAME = np.ones((3, 2))


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"p": NAN}, "the output 'p' is NaN or infinite in all 3 samples"),
        ({"p": NAN[:1]}, "the output 'p' is NaN or infinite"),
        ({"p": SAME, "q": NAN}, "the output 'p' is the same in all 3 samples; the output 'q' is NaN or infinite"),
        ({"p": SAME.astype(np.float16)}, "the output 'p' is the same in all 3 samples"),
        ({"p": SAME, "q": PROBABILITIES}, ""),
        ({"p": np.where(np.eye(3), math.nan, 1.0)}, ""),
        ({"p": NAN, "label": np.array([1, 2, 1])}, ""),
        ({"label": np.array([1, 1, 1])}, ""),
        ({"p": SAME[:1]}, ""),
        ({}, ""),
    ],
)
def test_outputs_that_show_nothing(outputs: dict[str, np.ndarray], said: str) -> None:
    inputs = [np.arange(count) for count in {len(array) for array in outputs.values()}]
    inputs = [np.arange(1)] if outputs.get("p") is not None and len(outputs["p"]) == 1 else inputs
    found = shows_nothing(outputs, inputs)
    assert found.startswith(said) and bool(found) == bool(said)


def test_constant_outputs_of_constant_inputs_show_as_much_as_can_be() -> None:
    assert shows_nothing({"p": SAME}, [np.zeros((3, 4))]) == ""
    assert shows_nothing({"p": NAN}, [np.zeros((3, 4))])
