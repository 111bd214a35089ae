"""Repairs of `add_loss` and activity regularizers: each replica keeps its own losses.

Keras keeps them in a list of the layer, which the replicas of one process share. Replicas are traced in turn, and the
turn passes at every collective: one replica would clear or read what another one added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.call_scope import Losses
from tfdist.keras_repairs.coupling.collected_losses import collected
from tfdist.text import safe_repr

Function = Callable[..., Any]


def add_loss(original: Function) -> Function:
    """Repairs `Layer.add_loss`."""

    def repaired(self: Any, loss: Any) -> None:
        losses = _losses()
        if losses is None:
            original(self, loss)
            return
        terms = keras.tree.flatten(loss)
        for term in terms:
            if not keras.ops.is_tensor(term):
                raise ValueError(f"add_loss() takes tensors. Received: {safe_repr(term)} of type {type(term).__name__}")
        losses.setdefault(id(self), []).extend(terms)

    return repaired


def clear_losses(original: Function) -> Function:
    """Repairs `Layer._clear_losses`: a layer that is called again from outside of all layers forgets its losses."""

    def repaired(self: Any) -> None:
        losses = _losses()
        if losses is not None:
            losses.pop(id(self), None)
        original(self)

    return repaired


def get_own_losses(original: Function) -> Function:
    """Repairs `Layer._get_own_losses`."""

    def repaired(self: Any) -> list[Any]:
        losses = _losses()
        return original(self) if losses is None else list(losses.get(id(self), ()))

    return repaired


def terms_of(layer: Any) -> list[Any]:
    """Returns what a layer has added, in the list that holds it."""
    losses = _losses()
    terms: list[Any] = layer._losses if losses is None else losses.get(id(layer), [])
    return terms


def _losses() -> Losses | None:
    """Returns where losses are kept now, if it is not in the layers."""
    losses, step = collected(), current_step()
    return step.noted.added_losses if losses is None and step is not None else losses
