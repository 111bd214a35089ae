"""The losses of Keras that couple the rows of a batch."""

from __future__ import annotations

from typing import Any

import keras
from keras.src.losses.losses import LossFunctionWrapper

_RANKING = (keras.losses.circle,)
"""Functions that compare the rows of a batch with one another."""

_RATIOS = (keras.losses.dice, keras.losses.tversky)
"""Functions that divide sums over `axis`, by default over everything; the others' is by default the last."""


def couples_rows(loss: Any, y_pred: Any) -> bool:
    """Returns whether `loss` is one of Keras's that takes a sample's value by the other samples of its batch.

    Besides those that always do, it is any whose axis is that of the samples, as the last one is of predictions with no
    other.

    Args:
        loss: A loss object, Keras's or not.
        y_pred: What it is called with: a tensor or a structure of tensors.
    """
    if getattr(type(loss), "call", None) is not LossFunctionWrapper.call:
        return False
    if loss.fn in _RANKING:
        return True
    if not getattr(loss.fn, "__module__", "").startswith("keras.src.losses."):
        return False
    axis = loss._fn_kwargs.get("axis", None if loss.fn in _RATIOS else -1)
    ranks = [len(tensor.shape) for tensor in keras.tree.flatten(y_pred)]
    return axis is None or any(one in (0, -rank) for one in keras.tree.flatten(axis) for rank in ranks)
