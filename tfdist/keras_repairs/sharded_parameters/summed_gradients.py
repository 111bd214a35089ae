"""Gradients by weights of which each worker stores a shard are shards of sums already where a tape returns them.

What code does to them before an optimizer has them would be done to shards, and to sums: clipped by a norm, they would
be others than on one device. So an optimizer takes them as the tape has returned them, or not at all. Those that code
in `tfdist.gathered` takes are full, of the global batch, on every replica: an optimizer sums them as any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_step import is_alone
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import actual_of, sliced_of

Function = Callable[..., Any]

_IS_SUMMED: AttachedValue[bool] = AttachedValue("is_shard_of_sum")
_IS_FULL: AttachedValue[bool] = AttachedValue("is_full_gradient")


def gradient(original: Function) -> Function:
    """Repairs `tf.GradientTape.gradient`: what it returns for weights that are cut is marked."""

    def repaired(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        target, sources = (tf.nest.map_structure(actual_of, each) for each in (target, sources))
        for source in _flat(sources):
            _check_is_full(source)
        gradients = original(self, target, sources, *args, **kwargs)
        for source, found in zip(_flat(sources), _flat(gradients), strict=True):
            shard = None if found is None else shard_of(source)
            if shard is not None and shard.sums_at_tape:
                (_IS_FULL if is_alone() else _IS_SUMMED).set(_marked(found), True)
        return gradients

    return repaired


def _check_is_full(source: Any) -> None:
    """Refuses a gradient by what a layer returns of which each worker has a slice: what follows is computed of that."""
    if isinstance(source, tf.Tensor) and sliced_of(source) is not None:
        raise UnsupportedError(
            "A gradient is taken by a tensor of which each worker computes a slice, by a layout of the weights that it "
            "is computed with (keras.distribution.ModelParallel, --tensor). Expected variables, or a tensor that every "
            f"worker has in full. Received: {source.name}, of shape {source.shape}. Take it by tf.identity(tensor) and "
            "compute from that what follows; or leave these weights out of the layout."
        )


def is_sum_of(gradient: Any, variable: Any) -> bool:
    """Returns whether a gradient by a weight that is cut is what a tape has returned.

    Raises:
        UnsupportedError: Something was done to it since.
    """
    if gradient is None or _IS_SUMMED.get(_marked(gradient)):
        return gradient is not None
    raise UnsupportedError(
        f"With --shard zero3 the gradient by {variable.path} is summed into shards where a tape takes it, and an "
        "optimizer expects what tape.gradient has returned. Received: another tensor. Let the optimizer clip it "
        "(clipnorm, global_clipnorm, clipvalue), accumulate it (gradient_accumulation_steps) or scale it, or train "
        "with --shard zero2."
    )


def is_full(gradient: Any) -> bool:
    """Returns whether a gradient by a weight that is cut is full, and still to be summed over the replicas."""
    return gradient is not None and bool(_IS_FULL.get(_marked(gradient)))


def keep_full(gradient: Any) -> Any:
    """A gradient made of one that is full, marked as that."""
    _IS_FULL.set(_marked(gradient), True)
    return gradient


def _marked(gradient: Any) -> tf.Tensor:
    """Returns what a mark of a gradient is attached to."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _flat(values: Any) -> Sequence[Any]:
    # A variable of Keras is no leaf of TensorFlow's where composites are expanded.
    flat: Sequence[Any] = tf.nest.flatten(values)
    return flat
