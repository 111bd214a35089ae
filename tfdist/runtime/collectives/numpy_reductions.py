"""Reductions of numpy arrays give the dtype that numpy gives: sums of small integers are int64, means float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.values import Leaf


def accumulated(leaf: Leaf, op: str) -> Leaf:
    """The leaf in the dtype of its reduction, as numpy's; a tensor keeps its own.

    Raises:
        UsageError: It is an array of texts or their like.
    """
    if leaf.array is None:
        return leaf
    if leaf.is_bytes:
        raise UsageError(
            f"There is no {op} of {leaf.dtype} over workers. Expected numbers. Use tfdist.all_gather, as it "
            "takes texts."
        )
    dtype = _dtype(leaf.array, op)
    if dtype == leaf.array:
        return leaf
    return dataclasses.replace(leaf, tensor=tf.cast(leaf.tensor, dtype), array=dtype)


def _dtype(dtype: np.dtype[np.generic], op: str) -> np.dtype[np.generic]:
    if dtype.kind not in "biu" or op in ("max", "min"):
        return dtype
    return np.dtype(np.float64) if op == "mean" else np.zeros(1, dtype).sum().dtype
