"""Result of a quantization, in JSON's types."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import keras

from tfdist.training.quantization.drop_budget import JudgedMetric
from tfdist.training.quantization.layer_choice import LayerChoice, Metrics
from tfdist.training.quantization.layer_quantization import layers_by_name, weight_bytes
from tfdist.training.quantization.quantized_files import QuantizedFiles


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        samples: On how many samples.
        before: What the float model has.
        metric: The metric that was judged by.
        choice: The layers that were chosen, and what came of them.
        shows_nothing: Why no metric could become worse, in words; empty where one could.
        is_bounded: Whether there is a budget.
    """

    samples: int
    before: Metrics
    metric: JudgedMetric
    choice: LayerChoice
    shows_nothing: str = ""
    is_bounded: bool = False

    @property
    def is_held(self) -> bool:
        """Whether there is no budget, or one that is held and could be exceeded."""
        return self.choice.is_held and not (self.is_bounded and self.shows_nothing)

    def drop(self, after: Metrics) -> float:
        """How much worse `after` is than the float model."""
        return self.metric.drop(self.before[self.metric.name], after[self.metric.name])

    def to_json(self) -> dict[str, Any]:
        """All of it but the layers."""
        return {
            "samples": self.samples,
            "metric": self.metric.name,
            "best": self.metric.best,
            "before": {"metrics": dict(self.before)},
            "after": {"metrics": dict(self.choice.after)},
            "drop": self.drop(self.choice.after),
            "held": self.is_held,
            "shows_nothing": self.shows_nothing,
        }


def layer_rows(
    files: QuantizedFiles, quantized: keras.Model, measured: Measured, kept: Set[str]
) -> list[dict[str, Any]]:
    """What came of each layer that has weights, in the order of the model.

    Args:
        files: What was known of them before.
        quantized: The model as a file gave it back.
        measured: What was measured.
        kept: Those that the user has kept in float.

    Returns:
        For each layer its name and class, the bytes of its weights before and after, why it is in float (None where it
        is quantized), and where it was measured alone, the metrics and the drop.
    """
    after = {name: weight_bytes(layer) for name, layer in layers_by_name(quantized).items()}
    reasons = {
        **dict.fromkeys(files.layers.keys() - set(files.names), "not covered"),
        **dict.fromkeys(files.unrecordable, "no file could say so"),
        **dict.fromkeys(kept, "--keep-float"),
        **dict.fromkeys(measured.choice.freed, "--max-drop"),
    }
    rows = []
    for name, facts in files.layers.items():
        alone = measured.choice.alone.get(name)
        rows.append(
            {
                "name": name,
                "kind": facts.kind,
                "bytes_before": facts.size,
                "bytes_after": after[name],
                "float_because": reasons.get(name),
                "alone": None if alone is None else dict(alone),
                "drop_alone": None if alone is None else measured.drop(alone),
            }
        )
    return rows
