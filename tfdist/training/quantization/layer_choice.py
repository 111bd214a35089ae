"""Choice of the layers that stay in float: by what each of them alone costs, then by what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tfdist.training.quantization.drop_budget import DropBudget, JudgedMetric

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
