"""Whether more of a metric is better, told by its name."""

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
    """`max` where the largest value is the best, `min` where the smallest is; None where the name does not tell.

    Args:
        metric: As in the history: `val_loss`, `accuracy`, `head_mean_absolute_error`.
    """
    words = re.split(r"[_\W]+", metric.lower().replace("io_u", "iou"))
    # What ends in loss is one, whatever the output is called that it is of.
    if words[-1] == "loss" or _LESS & set(words) and not _MORE & set(words):
        return "min"
    return "max" if _MORE & set(words) and not _LESS & set(words) else None
