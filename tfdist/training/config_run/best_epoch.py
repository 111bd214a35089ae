"""The best epoch of a history. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfdist.training.config_run.metric_texts import metrics_line


def best_epoch(
    history: Mapping[str, Sequence[float]], validated: Callable[[int], bool] = lambda epoch: True
) -> Iterator[str]:
    """`epoch 8, val_loss 0.0911`: the lowest loss of the validation, or without one of the training; else nothing.

    Args:
        history: Metric -> one float an epoch, of a validation for each epoch that had one.
        validated: Whether an epoch, counted from 0, was to have one.
    """
    name = next((name for name in ("val_loss", "loss") if name in history), "")
    numbers = (epoch for epoch in itertools.count() if name == "loss" or validated(epoch))
    values = zip(numbers, history.get(name, ()), strict=False)
    finite = {epoch: value for epoch, value in values if math.isfinite(value)}
    if finite:
        best = min(finite, key=lambda epoch: finite[epoch])
        yield f"epoch {best + 1}, {metrics_line({name: finite[best]})}"
