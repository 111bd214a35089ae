"""The logits behind probabilities, carried into and out of a function that XLA compiles.

Keras computes a crossentropy from the logits where it finds them: the activation notes them on the tensor that it
returns, or the tensor is the result of TensorFlow's operation. Neither is seen on the tensors of another function, and
of probabilities Keras cuts off what is close to 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.base.tensor_attributes import ACTIVATIONS

Logits: TypeAlias = Mapping[str, Mapping[int, tf.Tensor]]
"""By how they are found, and by the place of the probabilities among the tensors."""

_NOTED = "noted"


def logits_behind(tensors: Sequence[Any]) -> Logits:
    """The logits behind what a layer is given or returns, where Keras would find them.

    Args:
        tensors: Tensors of the current graph, and anything else.
    """
    noted = {place: getattr(tensor, "_keras_logits", None) for place, tensor in enumerate(tensors)}
    found = {_NOTED: {place: logits for place, logits in noted.items() if logits is not None}}
    for operation in ACTIVATIONS:
        found[operation] = {
            place: tensor.op.inputs[0]
            for place, tensor in enumerate(tensors)
            if tf.is_symbolic_tensor(tensor) and tensor.op.type == operation and place not in found[_NOTED]
        }
    return found


def with_logits(tensors: Sequence[Any], logits: Logits) -> list[Any]:
    """The tensors, behind which Keras finds `logits` again; results of operations are computed anew."""
    again = list(tensors)
    for kind, by_place in logits.items():
        for place, value in by_place.items():
            if kind == _NOTED:
                again[place]._keras_logits = value
            else:
                again[place] = ACTIVATIONS[kind](value)
    return again
