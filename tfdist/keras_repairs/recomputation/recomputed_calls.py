"""Calls that are computed again in the backward pass, as `keras.RematScope` and `keras.remat` ask for.

Chen et al., 2016, arXiv:1604.06174. Of calls within calls the outermost one is computed again, as a block of a
transformer is with all its layers. A model that is called by no other one would be whole again at once, and nothing
saved: where what it calls is to be computed again, that is, and the model is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.tensor_attributes import ON_TENSORS
from tfdist.keras_repairs.recomputation.copied_operations import RECOMPUTATION_SCOPE, RecomputedCall, compute_again

Function = Callable[..., Any]


def remat(original: Function) -> Function:
    """Repairs `keras.remat`, by which the layers of a `keras.RematScope` are called.

    `tf.recompute_grad`, which Keras takes, refuses keywords in a graph and traces the call twice.
    """

    def repaired(f: Function) -> Function:
        @functools.wraps(f)
        def recomputed(*args: Any, **kwargs: Any) -> Any:
            # What runs eagerly is kept: it could be computed again only by running Python again.
            is_inside = RECOMPUTATION_SCOPE.get().is_inside
            if tf.executing_eagerly() or is_inside or _is_outermost_model(getattr(f, "__self__", None)):
                return f(*args, **kwargs)
            call = RecomputedCall(tf.compat.v1.get_default_graph(), tf.no_op()._id)
            with changing(RECOMPUTATION_SCOPE, is_inside=True):
                outputs = f(*args, **kwargs)
            return tf.nest.map_structure(functools.partial(_watched, call), outputs)

        return recomputed

    return repaired


def _is_outermost_model(layer: Any) -> bool:
    if not isinstance(layer, keras.Model):
        return False
    context = global_state.get_global_attribute("current_call_ctx")
    inner = layer._flatten_layers(include_self=False)
    return context is not None and context.entry_layer is layer and any(each._remat_mode for each in inner)


def _watched(call: RecomputedCall, output: Any) -> Any:
    """An output whose gradient has the call computed again, as soon as it is there."""
    if not isinstance(output, tf.Tensor) or getattr(output, "graph", None) is not call.graph:
        return output
    if output.op._id <= call.begin or not output.dtype.is_floating:
        return output

    @tf.custom_gradient
    def watched(tensor: tf.Tensor) -> tuple[tf.Tensor, Callable[[Any], Any]]:
        def gradient(upstream: Any) -> Any:
            compute_again(call, upstream)
            return upstream

        return tf.identity(tensor), gradient

    passed = watched(output)
    call.add_output(output, passed.op.device)
    for name in ON_TENSORS:
        if hasattr(output, name):
            attached = getattr(output, name)
            setattr(passed, name, _watched(call, attached) if name == "_keras_logits" else attached)
    return passed
