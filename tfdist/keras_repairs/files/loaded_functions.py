"""Repair of the functions of a SavedModel that is loaded in a script: they can be called outside of the replicas.

Under a strategy TensorFlow makes the variables of what it loads distributed, and gives its functions placeholders for
them outside of the replicas, which fail when they run: it expects them to be called by the layers of a model alone. A
script that looks at what it has exported calls them as on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Function = Callable[..., Any]


def call_flat(original: Function) -> Function:
    """Repairs `_WrapperFunction._call_flat`: outside of the replicas, variables are those of the first one here."""

    def repaired(self: Any, args: Sequence[Any], captured_inputs: Sequence[Any]) -> Any:
        if tf.distribute.in_cross_replica_context():
            captured_inputs = [_handle(captured) for captured in captured_inputs]
        return original(self, args, captured_inputs)

    return repaired


def _handle(captured: Any) -> Any:
    """The resource of a variable that is the same on every replica; anything else as it is."""
    is_distributed = isinstance(captured, tf.distribute.DistributedValues) and isinstance(captured, tf.Variable)
    if not is_distributed or captured.synchronization == tf.VariableSynchronization.ON_READ:
        return captured
    return captured._primary.handle
