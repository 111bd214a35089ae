"""Rows of a batch: of a structure of dense, ragged and sparse tensors that share their first dimension.

A replica that has no sample of a global batch works on a *stand-in row*, as many operations of TensorFlow fail on no
row or give a wrong shape. What the row yields is left out by selection and never by a product with zero: of a batch of
one row a layer may well make NaN, and 0 times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.tensor_attributes import changed
from tfdist.runtime.batches import replica_batches


def size_along(leaf: Any, axis: int) -> tf.Tensor:
    """Returns how many rows a tensor has whose rows are along `axis`: a scalar int64 tensor."""
    return _rows_of(leaf) if axis == 0 else tf.shape(leaf, out_type=tf.int64)[axis]


def rows(batch: Any) -> tf.Tensor:
    """Returns how many rows `batch` holds: a scalar int64 tensor, the first dimension of its first tensor of
    samples."""
    leaf = _first(batch)
    return tf.constant(1, tf.int64) if leaf is None else _rows_of(leaf)


def has_rows(leaf: Any) -> bool:
    """Returns whether `leaf` is a tensor of any kind with a first dimension."""
    return isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor) and leaf.shape.rank != 0


def changed_axis(one: Any, other: Any) -> int | None:
    """The first axis of which two tensors have another size: that of the rows, where they are of different batches."""
    if not has_rows(one) or not has_rows(other):
        return None
    pairs = zip(one.shape, other.shape, strict=False)
    return next((axis for axis, (size, other_size) in enumerate(pairs) if size != other_size), None)


def static_rows(batch: Any) -> int | None:
    """Returns how many rows `batch` holds, where its shape alone says so, else None."""
    leaf = _first(batch)
    return None if leaf is None else leaf.shape[0]


def cut_along(leaf: Any, axis: int, start: Any, stop: Any) -> Any:
    """The rows of a tensor from `start` to before `stop`, scalar int64 tensors, where `axis` is that of the rows."""
    return _slice(leaf, start, stop) if axis == 0 else leaf[(slice(None),) * axis + (slice(start, stop),)]


def are_of_samples(leaves: Sequence[Any]) -> list[bool]:
    """Returns which leaves of a batch are tensors with a row for each sample; see `replica_batches.are_of_samples`."""
    return replica_batches.are_of_samples([leaf.shape if has_rows(leaf) else None for leaf in leaves])


def share_rows(batch: Any) -> bool:
    """Returns whether all tensors of `batch` that have rows of samples have as many, as far as their shapes tell."""
    leaves = tf.nest.flatten(batch)
    sizes = {leaf.shape[0] for leaf, has in zip(leaves, are_of_samples(leaves), strict=True) if has}
    return len(sizes) <= 1


def cut(batch: Any, start: Any, stop: Any) -> Any:
    """The rows of `batch` from `start` to before `stop`, scalar int64 tensors; what has no rows stays as it is."""
    leaves = tf.nest.flatten(batch)
    parts = zip(leaves, are_of_samples(leaves), strict=True)
    return tf.nest.pack_sequence_as(batch, [_slice(leaf, start, stop) if has else leaf for leaf, has in parts])


def with_known_rows(batch: Any, number: int) -> Any:
    """The batch with shapes that say how many rows its tensors have, where all of them are dense."""
    leaves = tf.nest.flatten(batch)
    places = [place for place, has in enumerate(are_of_samples(leaves)) if has]
    if all(isinstance(leaves[place], tf.Tensor) for place in places):
        for place in places:
            leaves[place] = tf.ensure_shape(leaves[place], [number, *leaves[place].shape[1:]])
    return tf.nest.pack_sequence_as(batch, leaves)


def without_stand_in(structure: Any) -> Any:
    """`structure`, with no row in its tensors where the replica being traced has no sample.

    Whatever number of rows a tensor has: a model may make several of a sample. What Keras finds behind one is kept.
    """
    step = current_step()
    if step is None or step.share.surely_has_samples:
        return structure

    def of_samples(leaf: Any) -> Any:
        if not has_rows(leaf):
            return leaf
        none = tf.constant(0, tf.int64)
        stop = tf.where(step.share.samples > 0, _rows_of(leaf), none)
        return changed(leaf, lambda tensor: tensor[:stop]) if isinstance(leaf, tf.Tensor) else _slice(leaf, none, stop)

    return tf.nest.map_structure(of_samples, structure)


def with_row_of_zeros(batch: Any) -> Any:
    """`batch`, or one row of zeros (empty strings, empty ragged rows) of its kind where it has none."""
    if static_rows(batch):
        return batch
    leaves = tf.nest.flatten(batch)
    places = [place for place, has in enumerate(are_of_samples(leaves)) if has]
    given = [leaves[place] for place in places]
    filled = tf.cond(rows(batch) > 0, lambda: given, lambda: [_row_of_zeros(leaf) for leaf in given])
    for place, leaf in zip(places, filled, strict=True):
        leaves[place] = leaf
    return tf.nest.pack_sequence_as(batch, leaves)


def _first(batch: Any) -> Any:
    leaves = tf.nest.flatten(batch)
    return next((leaf for leaf, has in zip(leaves, are_of_samples(leaves), strict=True) if has), None)


def _rows_of(leaf: Any) -> tf.Tensor:
    if leaf.shape[0] is not None:
        return tf.constant(leaf.shape[0], tf.int64)
    if isinstance(leaf, tf.RaggedTensor):
        return tf.cast(leaf.nrows(), tf.int64)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    return tf.shape(leaf, out_type=tf.int64)[0]


def _slice(leaf: Any, start: Any, stop: Any) -> Any:
    return _slice_sparse(leaf, start, stop) if isinstance(leaf, tf.SparseTensor) else leaf[start:stop]


def _slice_sparse(leaf: tf.SparseTensor, start: Any, stop: Any) -> tf.SparseTensor:
    """Rows of a sparse tensor, with the sizes that are known of the other dimensions, by which layers are built."""
    rest = leaf.dense_shape[1:]
    piece = tf.sparse.slice(leaf, tf.concat([[start], tf.zeros_like(rest)], 0), tf.concat([[stop - start], rest], 0))
    if leaf.shape.rank is None:
        return piece
    sizes = [piece.dense_shape[i] if size is None else tf.constant(size, tf.int64) for i, size in enumerate(leaf.shape)]
    return tf.SparseTensor(piece.indices, piece.values, tf.stack([piece.dense_shape[0], *sizes[1:]]))


def _row_of_zeros(leaf: Any) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        return tf.RaggedTensor.from_row_splits(leaf.values, tf.zeros([2], leaf.row_splits.dtype), validate=False)
    if isinstance(leaf, tf.SparseTensor):
        return tf.SparseTensor(leaf.indices, leaf.values, tf.stack([1, *tf.unstack(leaf.dense_shape)[1:]]))
    return tf.zeros(tf.concat([[1], tf.shape(leaf)[1:]], 0), leaf.dtype)
