"""Which layers stay in float, by what a stand-in of a model measures."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest

from tfdist.training.quantization.layer_choice import DropBudget, JudgedMetric, LayerChoice, choose_layers

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
