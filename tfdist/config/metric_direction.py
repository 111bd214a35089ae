"""Direction of a metric, by its name: whether its best value is the largest or the smallest."""

from __future__ import annotations

import re
from typing import Literal

Direction = Literal["min", "max"]

_LESS = {"loss", "error", "mse", "mae", "mape", "msle", "rmse", "divergence", "perplexity", "hinge", "crossentropy"}
_MORE = {
    *("acc", "accuracy", "auc", "precision", "recall", "score", "f1", "fbeta", "iou", "similarity", "correlation"),
    *("specificity", "sensitivity", "r2"),
}


def direction(metric: str) -> Direction | None:
    """`max` if the largest value is the best, `min` if the smallest is; None if the name does not tell.

    Args:
        metric: As in the history: `val_loss`, `accuracy`, `head_mean_absolute_error`.
    """
    words = re.split(r"[_\W]+", metric.lower().replace("io_u", "iou"))
    # A name that ends in loss is a loss, whatever its output is called.
    if words[-1] == "loss" or _LESS & set(words) and not _MORE & set(words):
        return "min"
    return "max" if _MORE & set(words) and not _LESS & set(words) else None
