"""The logits behind probabilities, carried into and out of a function that XLA compiles.

Keras computes a crossentropy from the logits where it finds them: the activation notes them on the tensor that it
returns, or the tensor is the result of TensorFlow's operation. Neither is seen on the tensors of another function, and
of probabilities Keras cuts off what is close to 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Logits: TypeAlias = Mapping[str, Mapping[int, tf.Tensor]]
"""By how they are found, and by the place of the probabilities among the tensors."""

_NOTED = "noted"
_OPERATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {"Softmax": tf.nn.softmax, "Sigmoid": tf.nn.sigmoid}


def noted_logits(tensors: Sequence[Any]) -> Logits:
    """What Keras's activations have noted on the tensors."""
    noted = {place: getattr(tensor, "_keras_logits", None) for place, tensor in enumerate(tensors)}
    return {_NOTED: {place: logits for place, logits in noted.items() if logits is not None}}


def logits_behind(outputs: Sequence[Any]) -> Logits:
    """The logits behind the outputs of a layer, where Keras would find them.

    Args:
        outputs: Tensors of the current graph, and anything else.
    """
    found = dict(noted_logits(outputs))
    for operation in _OPERATIONS:
        found[operation] = {
            place: output.op.inputs[0]
            for place, output in enumerate(outputs)
            if tf.is_symbolic_tensor(output) and output.op.type == operation and place not in found[_NOTED]
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
                again[place] = _OPERATIONS[kind](value)
    return again
