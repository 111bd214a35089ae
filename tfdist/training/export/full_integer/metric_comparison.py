"""Measures how much worse an artefact is than Keras, by the metrics of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tfdist.training.export.full_integer.calibration_request import CalibrationRequest
from tfdist.training.export.full_integer.labelled_samples import LabelledSamples
from tfdist.training.quantization.drop_budget import DropBudget, choose_metric


def compare_metrics(
    asked: CalibrationRequest,
    samples: LabelledSamples,
    keras_outputs: Mapping[str, NDArray],
    outputs: Mapping[str, NDArray],
) -> dict[str, Any]:
    """The metrics of both, and whether the budget is held, in JSON's types.

    Args:
        asked: The budget.
        samples: What was computed.
        keras_outputs: Keras's, name -> [samples, ...].
        outputs: The artefact's.

    Raises:
        UsageError: There is no such metric.
    """
    before = samples.metrics(keras_outputs)
    after = samples.metrics(outputs)
    metric = choose_metric(asked.metric, before)
    drop = metric.drop(before[metric.name], after[metric.name])
    held = drop <= DropBudget.of(asked.max_drop).allowed(before[metric.name])
    facts = {"metric": metric.name, "drop": drop, "max_drop": asked.max_drop, "held": held}
    return {"metrics": {"keras": before, "artifact": after}, **facts}
