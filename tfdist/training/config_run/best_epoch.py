"""The best epoch of a history. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tfdist.training.config_run.metric_texts import metrics_line


def best_epoch(history: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """`epoch 8, val_loss 0.0911`: the lowest loss of the validation, or without one of the training; else nothing.

    Args:
        history: Metric -> one float an epoch.
    """
    name = next((name for name in ("val_loss", "loss") if name in history), "")
    finite = {epoch: value for epoch, value in enumerate(history.get(name, ())) if math.isfinite(value)}
    if finite:
        best = min(finite, key=lambda epoch: finite[epoch])
        yield f"epoch {best + 1}, {metrics_line({name: finite[best]})}"
