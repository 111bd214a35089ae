"""Which layers stay in float, by what a stand-in of a model measures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

import pytest

from tfdist.errors import UsageError
from tfdist.training.quantization.layer_choice import (
    DropBudget,
    JudgedMetric,
    LayerChoice,
    choose_layers,
    choose_metric,
)


@pytest.mark.parametrize(
    ("text", "before", "allowed"),
    [("0.5%", 0.8, 0.004), ("0.005", 0.8, 0.005), ("10 %", -2.0, 0.2), ("0%", 0.8, 0.0), ("0", 3.0, 0.0)],
)
def test_shares_and_amounts(text: str, before: float, allowed: float) -> None:
    assert DropBudget.of(text).allowed(before) == pytest.approx(allowed)


@pytest.mark.parametrize("text", ["", "%", "much", "-1%", "-0.1", "nan", "inf", "1%%", "inf%"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max-drop takes .* Received: --max-drop"):
        DropBudget.of(text)


def test_a_budget_as_it_is_said() -> None:
    assert [str(DropBudget.of(text)) for text in ("0.5%", "0.005")] == ["0.5%", "0.005"]


@pytest.mark.parametrize(
    ("asked", "name", "best"),
    [
        (None, "accuracy", "max"),
        ("loss", "loss", "min"),
        ("mae", "mae", "min"),
        ("top_k_accuracy", "top_k_accuracy", "max"),
    ],
)
def test_the_metric_to_judge_by(asked: str | None, name: str, best: str) -> None:
    metrics = {"loss": 1.0, "mae": 2.0, "accuracy": 0.5, "top_k_accuracy": 0.7}
    assert choose_metric(asked, metrics) == JudgedMetric(name, best)  # type: ignore[arg-type]


def test_without_another_metric_it_is_the_loss() -> None:
    assert choose_metric(None, {"loss": 1.0, "strange": 3.0}) == JudgedMetric("loss", "min")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("acc", "no such metric. Expected one of loss, strange. Received: acc"),
        ("strange", "does not say whether more or less of it is better. Expected one of loss"),
    ],
)
def test_metrics_that_judge_nothing(asked: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_metric(asked, {"loss": 1.0, "strange": 3.0})
    with pytest.raises(UsageError, match="NaN, so that nothing can be worse"):
        choose_metric(None, {"loss": math.nan})


def test_drops() -> None:
    rising, falling = JudgedMetric("accuracy", "max"), JudgedMetric("loss", "min")
    assert rising.drop(0.9, 0.8) == pytest.approx(0.1) and rising.drop(0.8, 0.9) == pytest.approx(-0.1)
    assert falling.drop(0.9, 0.8) == pytest.approx(-0.1)
    assert rising.drop(0.9, math.nan) == falling.drop(0.9, math.nan) == math.inf


BEFORE = {"loss": 1.0, "accuracy": 0.9}
ACCURACY = JudgedMetric("accuracy", "max")


class Model:
    """Each layer costs what it costs, and two together what `pairs` says besides."""

    def __init__(self, costs: Mapping[str, float], pairs: Mapping[frozenset[str], float] | None = None) -> None:
        self.costs, self.pairs = costs, pairs or {}
        self.measured: list[frozenset[str]] = []

    def measure(self, quantized: Set[str]) -> dict[str, float]:
        self.measured.append(frozenset(quantized))
        cost = sum(self.costs[layer] for layer in quantized)
        cost += sum(extra for pair, extra in self.pairs.items() if pair <= quantized)
        return {"loss": 1 + cost, "accuracy": 0.9 - cost}

    def choose(self, budget: str | None, metric: JudgedMetric = ACCURACY, *, sensitivity: bool = False) -> LayerChoice:
        limit = None if budget is None else DropBudget.of(budget)
        return choose_layers(tuple(self.costs), self.measure, BEFORE, metric, limit, sensitivity=sensitivity)


def test_without_a_budget_all_are_quantized_and_measured_once() -> None:
    model = Model({"a": 0.1, "b": 0.2})
    choice = model.choose(None)
    assert choice.quantized == {"a", "b"} and choice.is_held and not choice.alone
    assert model.measured == [{"a", "b"}]


def test_within_the_budget_nothing_is_measured_alone() -> None:
    model = Model({"a": 0.001, "b": 0.002})
    assert model.choose("0.01").quantized == {"a", "b"} and len(model.measured) == 1


def test_sensitivity_measures_each_alone() -> None:
    choice = Model({"a": 0.1, "b": 0.2}).choose(None, sensitivity=True)
    accuracies = {layer: metrics["accuracy"] for layer, metrics in choice.alone.items()}
    assert accuracies == pytest.approx({"a": 0.8, "b": 0.7})


def test_those_that_cost_most_go_back_to_float_until_it_is_held() -> None:
    model = Model({"a": 0.01, "b": 0.3, "c": 0.2, "d": 0.0})
    choice = model.choose("0.05")
    assert choice.freed == ("b", "c") and choice.quantized == {"a", "d"} and choice.is_held
    assert choice.after["accuracy"] == pytest.approx(0.89)
    assert model.measured[-1] == {"a", "d"}, "what is kept has been measured"


def test_what_layers_cost_together_is_measured_and_not_summed() -> None:
    model = Model({"a": 0.0, "b": 0.001, "c": 0.002}, {frozenset("ab"): 0.5})
    choice = model.choose("0.05")
    assert choice.freed == ("c", "b") and choice.quantized == {"a"} and choice.is_held
    assert choice.after == choice.alone["a"], "that was measured already"


def test_a_budget_that_one_layer_alone_exceeds() -> None:
    choice = Model({"a": 0.2, "b": 0.3}).choose("0.05")
    assert not choice.is_held and choice.quantized == {"a"} and choice.freed == ("b",)
    single = Model({"a": 0.2})
    assert not single.choose("0.05").is_held and len(single.measured) == 1


def test_between_equal_accuracies_the_loss_decides() -> None:
    model = Model({"a": 0.0, "b": 0.0})
    measured = model.measure

    def measure(quantized: Set[str]) -> dict[str, float]:
        loss, accuracy = 1 + 0.1 * ("b" in quantized), 0.9 - 0.1 * (len(quantized) > 1)
        return {**measured(quantized), "loss": loss, "accuracy": accuracy}

    choice = choose_layers(("a", "b"), measure, BEFORE, ACCURACY, DropBudget.of("0.01"))
    assert choice.freed == ("b",) and choice.is_held


def test_a_metric_that_is_better_when_it_is_less() -> None:
    choice = Model({"a": 0.01, "b": 0.3}).choose("5%", JudgedMetric("loss", "min"))
    assert choice.freed == ("b",) and choice.is_held
