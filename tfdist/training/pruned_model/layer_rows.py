"""Lists what is left of each layer of a pruned model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfdist.training.pruning.prunable_layers import PrunableLayer, prunable_layers
from tfdist.training.pruning.structure import UNSTRUCTURED, Structure


def layer_rows(before: keras.Model, after: keras.Model) -> list[dict[str, Any]]:
    """Each layer whose kernel can be pruned, in JSON's types.

    Args:
        before: The model, as it was.
        after: The same model, pruned: of some layers it may have fewer channels.

    Returns:
        Name and class, the shapes of the kernel before and after, its weights before, and those after that are not 0.
    """
    pairs = zip(_kernels(before), _kernels(after), strict=True)
    return [
        {
            "name": was.name,
            "kind": type(was.layer).__name__,
            "shape_before": list(was.kernel.shape),
            "shape_after": list(now.kernel.shape),
            "weights": math.prod(was.kernel.shape),
            "left": int(np.count_nonzero(keras.ops.convert_to_numpy(now.kernel))),
        }
        for was, now in pairs
    ]


def sparsity(rows: Sequence[dict[str, Any]]) -> float:
    """The share of the weights of all these layers that is gone."""
    return 1 - sum(row["left"] for row in rows) / sum(row["weights"] for row in rows)


def _kernels(model: keras.Model) -> list[PrunableLayer]:
    return prunable_layers(model, Structure(UNSTRUCTURED))
