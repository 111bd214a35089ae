"""Constraints of a table, as far as each worker can apply them to its rows."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.errors import UnsupportedError

_NORMS = (keras.constraints.MaxNorm, keras.constraints.MinMaxNorm, keras.constraints.UnitNorm)


def check_constraint(constraint: Any, owner: str) -> None:
    """Refuses a constraint that needs other rows.

    Args:
        constraint: Of a layer, or None.
        owner: The layer's name.

    Raises:
        UnsupportedError: It may need all rows at once.
    """
    if constraint is None or type(constraint) is keras.constraints.NonNeg:
        return
    if type(constraint) in _NORMS and _axes(constraint) in ([1], [-1]):
        return
    axis = f"(axis={constraint.axis})" if type(constraint) in _NORMS else ""
    raise UnsupportedError(
        f"The embedding {owner!r} is sharded, and its constraint {type(constraint).__name__}{axis} may need all rows "
        "at once. Expected NonNeg, or MaxNorm, MinMaxNorm or UnitNorm with axis=1, the norm of each row. Train it "
        "whole, by --shard-embeddings with more rows than it has, or keras.layers.Embedding."
    )


def _axes(constraint: Any) -> list[int]:
    axis = constraint.axis
    return list(axis) if isinstance(axis, list | tuple) else [axis]
