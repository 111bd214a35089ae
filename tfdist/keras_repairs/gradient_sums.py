"""Sums of the replicas' gradients, each weighted by its samples where the loss is a mean over them.

Slices of a lookup that follows from the batch are those of samples: one device has those of all replicas, one after the
other. A lookup that does not (of the places in a text, say) is the same on every replica, and its slices are sums over
the samples: one device has the sums of them. To optimizers that is not the same, as they square slice by slice.

Finds the lookups of a gradient's slices: of samples, or the same in all batches, as the graph tells.

Kernels of several threads add up in another order each time. What comes of it is small, but Adam makes a full step of a
gradient that is zero but for rounding, such as that of the bias of the keys of an attention layer, and a deep network
blows it up from step to step: the copies of a variable would part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_copies import is_first_replica
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, ReplicaStep, current_step, note_gathering
from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.runtime.transport import replica_sums

_DRAWS = {"IteratorGetNext", "IteratorGetNextAsOptional", "OptionalGetValue"}
"""Operations that give a batch inside of a function."""


def lookups(indices: tf.Tensor) -> list[tuple[tf.Tensor, bool]]:
    """The indices of each lookup that slices are of, in their order, and whether it is one of samples.

    What cannot be told is taken for one of samples.
    """
    if not hasattr(indices, "graph") or tf.executing_eagerly():
        return [(indices, True)]
    step = current_step()
    rows = _known_rows(indices.graph) if step is None else {step.share.static_rows or 0} - {0}
    return [(each, _is_of_samples(each, rows)) for each in _joined_of(indices)]


def _joined_of(indices: tf.Tensor) -> list[tf.Tensor]:
    """Returns what TensorFlow has joined of the gradients of several lookups in one variable."""
    if indices.op.type != "ConcatV2":
        return [indices]
    return [part for joined in list(indices.op.inputs)[:-1] for part in _joined_of(joined)]


_SAME_IN_ALL_BATCHES: set[tuple[Any, ...]] = set()
"""The indices that were seen to be no multiple of the rows of a batch, and so the same in all."""


def _is_of_samples(indices: tf.Tensor, rows: AbstractSet[int]) -> bool:
    if depends_on_batch(indices):
        return True
    # Where sizes are numbers, one that follows from the batch may be any multiple of its rows. All workers are to tell
    # the same of a lookup, whatever rows they have.
    size = indices.shape.num_elements()
    may_be = any(size is None or size % each == 0 for each in rows)
    values = _constant(indices) if rows or size == 0 else None
    if values is None:
        return may_be
    key = values.dtype.str, values.shape, values.tobytes()
    if rows <= {1}:
        return key not in _SAME_IN_ALL_BATCHES
    # What is repeated for each of several rows is not distinct.
    if may_be and np.unique(values).size < values.size:
        return True
    _SAME_IN_ALL_BATCHES.add(key)
    return False


def _constant(tensor: tf.Tensor) -> NDArray | None:
    """The values of a tensor of the graph being traced; None where they are not known yet."""
    with contextlib.suppress(ValueError, TypeError, tf.errors.OpError), tf.init_scope(), tf.device("CPU:0"):
        part = tf.compat.v1.graph_util.extract_sub_graph(tensor.graph.as_graph_def(), [tensor.op.name])
        imported = tf.compat.v1.wrap_function(
            lambda: tf.graph_util.import_graph_def(part, return_elements=[tensor.name])[0], []
        )
        return np.asarray(imported())
    return None


def _known_rows(graph: Any) -> set[int]:
    """The first sizes of the data that a function in a loop of the user's is given, where they are numbers."""
    tensors = []
    while hasattr(graph, "inputs"):
        tensors += [*graph.inputs, *(out for op in graph.get_operations() if op.type in _DRAWS for out in op.outputs)]
        graph = graph.outer_graph
    return {tensor.shape[0] for tensor in tensors if tensor.shape.rank} - {None, 0}


Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def reduce_gradients(grads: Sequence[Gradient]) -> list[Gradient]:
    """Sums gradients over the replicas, in the context of a replica; sparse ones stay sparse, None stays None."""
    if any(isinstance(gradient, tf.IndexedSlices) for gradient in grads):
        note_gathering()
    parts = [[] if gradient is None else parts_of(gradient) for gradient in grads]
    flat = [part.summand for each in parts for part in each]
    sums, step = replica_sums.sum_gradients(flat), current_step()
    if step is not None:
        step.noted.shared.extend(leaf for total in sums for leaf in tf.nest.flatten(total, expand_composites=True))
    summed = iter(sums)
    return [_joined([part.with_sum(next(summed)) for part in each]) for each in parts]


@dataclass(frozen=True)
class Part:
    """A part of a gradient, and how the sum over the replicas is made of it.

    Attributes:
        gradient: A tensor, or slices.
        is_of_samples: Whether its slices, if it is made of such, are of samples.
    """

    gradient: tf.Tensor | tf.IndexedSlices
    is_of_samples: bool = True

    @property
    def summand(self) -> tf.Tensor | tf.IndexedSlices:
        """The summand: what is summed over the replicas."""
        return self.gradient if self.is_of_samples else self.gradient.values

    def with_sum(self, total: Any) -> tf.Tensor | tf.IndexedSlices:
        """The part with the sum of all `summand`s in the place of this replica's."""
        if self.is_of_samples:
            return _as_distinct(total, as_in=self.gradient)
        return tf.IndexedSlices(total, self.gradient.indices, self.gradient.dense_shape)


def parts_of(gradient: tf.Tensor | tf.IndexedSlices) -> list[Part]:
    """A gradient in parts that are summed over the replicas in one way each."""
    found = lookups(gradient.indices) if isinstance(gradient, tf.IndexedSlices) else []
    if all(is_of_samples for _, is_of_samples in found):
        return [Part(gradient)]
    rows = tf.split(gradient.values, [tf.size(indices) for indices, _ in found])
    pieces = zip(rows, found, strict=True)
    return [
        Part(tf.IndexedSlices(values, indices, gradient.dense_shape), is_of_samples)
        for values, (indices, is_of_samples) in pieces
    ]


def weighted(grads: list[Gradient]) -> list[Gradient]:
    """The gradients, weighted by samples in the user's own step, whose loss is taken for a mean over them.

    In Keras's step the loss is the replica's summand already. The gradients of a replica without samples are left out.
    """
    step = current_step()
    if step is None:
        return grads
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads if g is not None]

    def of_samples() -> list[tf.Tensor]:
        weights = [step.weight(value.dtype) for value in values]
        return [value if weight is None else value * weight for value, weight in zip(values, weights, strict=True)]

    if values and not step.share.surely_has_samples:
        # Chosen all at once and not one by one, which would be a pass over memory, nor by a product: 0 * NaN is NaN.
        values = tf.cond(step.share.samples > 0, of_samples, lambda: [tf.zeros_like(value) for value in values])
    else:
        values = of_samples()
    rest = iter(values)

    def replaced(gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return _slices_of_samples(next(rest), gradient, step)
        return None if gradient is None else next(rest)

    return [replaced(gradient) for gradient in grads]


def _joined(parts: Sequence[tf.Tensor | tf.IndexedSlices]) -> Gradient:
    """The gradient that parts of it make: none, one, or several of slices."""
    if len(parts) < 2:
        return parts[0] if parts else None
    values, indices = tf.concat([part.values for part in parts], 0), tf.concat([part.indices for part in parts], 0)
    return tf.IndexedSlices(values, indices, parts[0].dense_shape)


def _as_distinct(summed: Any, as_in: Gradient) -> Gradient:
    """Joins the slices that several replicas have of one row, where a replica's own rows are distinct.

    Optimizers square slice by slice. Those of an embedding repeat a row for each time that it was looked up, on one
    replica as well; those of a product with a sparse matrix are distinct, on one replica, over the whole batch.
    """
    if not isinstance(as_in, tf.IndexedSlices) or tf.executing_eagerly() or not _is_distinct(as_in.indices):
        return summed
    rows, places = tf.unique(summed.indices)
    values = tf.math.unsorted_segment_sum(summed.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, summed.dense_shape)


def _is_distinct(indices: tf.Tensor) -> bool:
    operation = indices.op
    while operation.type in ("Identity", "Reshape", "Cast", "StridedSlice"):
        operation = operation.inputs[0].op
    return operation.type.startswith("Unique")


def _slices_of_samples(values: tf.Tensor, gradient: tf.IndexedSlices, step: ReplicaStep) -> tf.IndexedSlices:
    """Slices of `gradient` with other values; none without samples, as optimizers may heed which rows have a slice."""
    indices = gradient.indices
    if any(not is_of_samples for _, is_of_samples in lookups(indices)):
        # Replicas with samples sum theirs with them.
        return tf.IndexedSlices(values, indices, gradient.dense_shape)
    if not step.share.surely_has_samples:
        stop = tf.where(step.share.samples > 0, tf.size(indices), 0)
        values, indices = values[:stop], indices[:stop]
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


@tf.custom_gradient
def differentiated_once(total: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """A gradient that workers have exchanged where a weight is cut: a gradient of it is refused."""

    def refuse(*_: Any) -> Any:
        raise UnsupportedError(
            "Where weights or sequences are cut (--shard zero3, --tensor, keras.distribution.ModelParallel, "
            "--context), workers exchange gradients where they are taken, and there is no gradient of that. Received: "
            "a gradient of a gradient in a model. Train with --shard zero2, or without any of these."
        )

    return tf.identity(total), refuse


_EAGERLY = "eagerly"


def of_first_replica() -> contextlib.AbstractContextManager[None]:
    """Inside, in a step that all replicas run whole, optimizers are given the gradients of the first one."""
    return changing(REPLICA_SCOPE, graph_of_global_batch_step=_here())


def alike(grads: Sequence[Gradient]) -> list[Gradient]:
    """The gradients of the first replica, where all of them run this step; those of this one elsewhere.

    Elsewhere is also a branch or a function inside of the step, where TensorFlow lets no replicas meet.
    """
    if REPLICA_SCOPE.get().graph_of_global_batch_step is not _here():
        return list(grads)
    given = [gradient for gradient in grads if gradient is not None]
    own = given if is_first_replica() else [_without_values(gradient) for gradient in given]
    rest = iter(replica_sums.sum_over_replicas(own)) if given else iter(())
    return [None if gradient is None else next(rest) for gradient in grads]


def _without_values(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.zeros_like(gradient.values), gradient.indices, gradient.dense_shape)
    return tf.zeros_like(gradient)


def _here() -> Any:
    return _EAGERLY if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
