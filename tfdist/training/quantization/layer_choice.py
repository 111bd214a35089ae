"""Choice of the layers that stay in float, by a budget of how much worse a metric may become."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Self

from tfdist.config.training_sections import Direction, direction
from tfdist.errors import UsageError


@dataclass(frozen=True)
class DropBudget:
    """The amount by which a metric may become worse.

    Attributes:
        amount: The drop, from 0: in the metric's own unit, or as a share of what the float model has.
        is_share: Whether it is a share.

    Raises:
        UsageError: The amount is negative or not finite.
    """

    amount: float
    is_share: bool

    def __post_init__(self) -> None:
        if not 0 <= self.amount < math.inf:
            raise UsageError(_expected(str(self.amount)))

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads `0.5%` (of what the float model has) or `0.005` (in the metric's own unit).

        Raises:
            UsageError: It is neither.
        """
        number = text.strip().removesuffix("%")
        try:
            amount = float(number)
        except ValueError:
            raise UsageError(_expected(text)) from None
        return cls(amount / 100, True) if text.strip().endswith("%") else cls(amount, False)

    def allowed(self, before: float) -> float:
        """The largest drop, where the float model has `before`."""
        return self.amount * abs(before) if self.is_share else self.amount

    def __str__(self) -> str:
        return f"{self.amount * 100:g}%" if self.is_share else f"{self.amount:g}"


def _expected(received: str) -> str:
    return (
        "--max-drop takes how much worse the metric may become: 0.5% of what the float model has, or 0.005 in the "
        f"metric's own unit. Received: --max-drop {received}"
    )


@dataclass(frozen=True)
class JudgedMetric:
    """The metric by which a quantized model is judged.

    Attributes:
        name: As `evaluate` names it.
        best: Whether its best value is the largest or the smallest.
    """

    name: str
    best: Direction

    def drop(self, before: float, after: float) -> float:
        """Returns how much worse `after` is than `before`: below 0 where it is better, infinite where it is no
        number."""
        if math.isnan(after):
            return math.inf
        return before - after if self.best == "max" else after - before


def choose_metric(asked: str | None, metrics: Mapping[str, float]) -> JudgedMetric:
    """The metric to judge by: the one asked for, else the first one whose best value is the largest, else the loss.

    Args:
        asked: What the user has named.
        metrics: What the float model has.

    Raises:
        UsageError: There is no such metric, its name does not say which values are better, or it is NaN.
    """
    known = ", ".join(metrics)
    if asked is not None and asked not in metrics:
        raise UsageError(f"--metric: the model has no such metric. Expected one of {known}. Received: {asked}")
    rising = (name for name in metrics if direction(name) == "max")
    name = asked or next(rising, "loss")
    best = direction(name)
    if best is None:
        others = ", ".join(other for other in metrics if direction(other) is not None)
        raise UsageError(
            f"--metric {name}: its name does not say whether more or less of it is better. Expected one of {others}. "
            f"Received: {name}"
        )
    if math.isnan(metrics[name]):
        raise UsageError(
            f"The {name} of the float model is NaN, so that nothing can be worse. Expected a trained model. Choose "
            "another --checkpoint or another --metric."
        )
    return JudgedMetric(name, best)


Metrics = Mapping[str, float]

Measure = Callable[[Set[str]], Metrics]
"""Measures the model with these layers quantized, and all others in float."""


@dataclass(frozen=True)
class LayerChoice:
    """The choice of layers.

    Attributes:
        quantized: The layers that are quantized.
        after: What was measured with them.
        alone: Layer -> what was measured with that one alone quantized; empty where nobody asked.
        freed: The layers that stay in float by the budget, in the order in which they were chosen.
        is_held: Whether the drop is within the budget.
    """

    quantized: frozenset[str]
    after: Metrics
    alone: Mapping[str, Metrics] = field(default_factory=dict)
    freed: tuple[str, ...] = ()
    is_held: bool = True


def choose_layers(
    layers: Sequence[str],
    measure: Measure,
    before: Metrics,
    metric: JudgedMetric,
    budget: DropBudget | None,
    *,
    sensitivity: bool = False,
) -> LayerChoice:
    """Quantizes all layers, or as many as a budget allows.

    Where all of them drop more than the budget, each is measured alone, and they go back to float one after another,
    the one that costs most first, each time with a measurement of what is left.

    Args:
        layers: Those that may be quantized, at least one.
        measure: Measures a choice of them.
        before: What the float model has.
        metric: The metric to judge by.
        budget: How far it may drop; None for any drop.
        sensitivity: Whether each layer is measured alone in any case.
    """
    quantized = frozenset(layers)
    after = measure(quantized)

    def held(metrics: Metrics) -> bool:
        return budget is None or _drop(metric, before, metrics) <= budget.allowed(before[metric.name])

    alone: dict[str, Metrics] = {}
    if sensitivity or not held(after):
        # Of one layer there is nothing else to measure than the whole.
        alone = {layers[0]: after} if len(layers) == 1 else {layer: measure({layer}) for layer in layers}
    freed: list[str] = []
    for layer in _costliest_first(layers, alone, before, metric):
        if held(after) or len(quantized) == 1:
            break
        freed.append(layer)
        quantized -= {layer}
        after = alone[next(iter(quantized))] if len(quantized) == 1 else measure(quantized)
    return LayerChoice(quantized, after, alone, tuple(freed), held(after))


def _costliest_first(
    layers: Sequence[str], alone: Mapping[str, Metrics], before: Metrics, metric: JudgedMetric
) -> list[str]:
    """By the drop of the metric; between equal ones, as accuracies of few samples often are, by that of the loss."""
    loss = JudgedMetric("loss", "min")
    measured = [layer for layer in layers if layer in alone]
    return sorted(
        measured,
        key=lambda layer: (_drop(metric, before, alone[layer]), _drop(loss, before, alone[layer])),
        reverse=True,
    )


def _drop(metric: JudgedMetric, before: Metrics, after: Metrics) -> float:
    if metric.name not in before:
        return 0.0
    return metric.drop(before[metric.name], after[metric.name])
