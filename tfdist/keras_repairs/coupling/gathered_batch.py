"""The rows of all replicas on every replica, with the gradient of each replica's own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import backend

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import batch_rows
from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.base.nested_gradients import is_nested, of_a_loss, where_shares_are_equal
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, replica_count, replica_id
from tfdist.keras_repairs.base.tensor_attributes import changed
from tfdist.keras_repairs.coupling.gather_rows import all_rows, dense_rows, sum_of_any_size
from tfdist.keras_repairs.coupling.output_rows import of_call
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.compiled_sums import CompiledSums
from tfdist.text import safe_repr

Backward = Callable[[tf.Tensor], tf.Tensor]
OwnGradient = Callable[[tf.Tensor, Backward, bool], tf.Tensor]
"""Of the gradient of the rows of all replicas, a function that takes the own rows, and whether the result will be
differentiated itself."""


class NeedsAllRows(Exception):
    """Rows are to be gathered inside of a layer that is compiled with XLA, which cannot: it is called as it is."""


@dataclass(frozen=True)
class Places:
    """The places of this replica's rows among those of all, for each tensor that has rows; scalar int64 tensors.

    Attributes:
        starts: The place of the first one.
        totals: How many rows there are.
    """

    starts: list[tf.Tensor]
    totals: list[tf.Tensor]


@dataclass(frozen=True)
class GatheredBatch:
    """The rows of all replicas, and which of them are this replica's.

    Attributes:
        values: The gathered structure.
        start: Scalar int64 tensor, the place of this replica's first row.
        total: Scalar int64 tensor, how many there are.
        held: Scalar int64 tensor, how many rows the replica holds: its samples, or what it has in the place of none.
        is_gathered: Which leaves of `values` have rows; the others were left as they are.
    """

    values: Any
    start: tf.Tensor
    total: tf.Tensor
    held: tf.Tensor
    is_gathered: tuple[bool, ...]

    def own_rows(self, call: Callable[[Any], Any]) -> Any:
        """The rows of this replica in what `call` computes from `values`, a structure of tensors.

        A tensor has rows where one of its dimensions follows from that of the batch, the first or that of the rows of
        each expert, say; it may be a multiple of it, as that of time steps folded into the batch. Anything else stays
        as it is, and masks are cut, too.

        Args:
            call: Computes a structure of tensors from one like `values`.

        Raises:
            UnsupportedError: Which outputs have rows cannot be told.
            InvalidArgumentError: An output has rows, and not so many for each of the batch. Raised when it runs.
        """
        outputs = call(self.values)
        leaves = tf.nest.flatten(outputs)
        axes = of_call(call, self.values, self.is_gathered, leaves, tf.get_static_value(self.total))
        step = current_step()
        if step is not None:
            step.noted.shared.extend(leaf for leaf, axis in zip(leaves, axes, strict=True) if axis is None)
        own = [leaf if axis is None else self._own(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        return tf.nest.pack_sequence_as(outputs, own)

    def _own(self, output: Any, axis: int) -> Any:
        each = self._rows_each(output, axis)
        # A replica without a sample goes on with a row of another's, which counts nowhere.
        start = tf.minimum(self.start, self.total - self.held)
        stop = start + self.held

        def cut(tensor: Any) -> Any:
            return batch_rows.cut_along(tensor, axis, start * each, stop * each)

        return changed(output, cut) if isinstance(output, tf.Tensor) else cut(output)

    def _rows_each(self, output: Any, axis: int) -> tf.Tensor:
        """Returns how many rows of `output` there are to one of the batch."""
        rows = batch_rows.size_along(output, axis)
        check = tf.debugging.assert_equal(
            rows % self.total,
            tf.zeros_like(rows),
            "tfdist.gathered(...): a function or layer that is called with the rows of all replicas returned a tensor "
            "whose first dimension is no multiple of them, so no replica knows which rows of it are its own. Expected "
            "as many rows as the batch has, a multiple of them, or a size that does not depend on the batch, and that "
            "its shape says (keras.ops.reshape(rows, (16, -1)), say). Reduce the tensor inside of what is gathered, or "
            "give it one row for each sample.",
        )
        with tf.control_dependencies([] if check is None else [check]):
            return rows // self.total


def gathered_for_scalar(value: Any, dtype: Any) -> Any:
    """Gathers a structure of tensors for a scalar that every replica computes from it, and computes alike.

    As every replica has the same gradient of the gathered rows, a replica takes that of its own rows without asking the
    others. It is divided by the weight that the scalar has on this replica, its share of the samples (in a loop written
    by hand 1 / R): weighted by it, the scalar counts once over all replicas, and so do variables that it is made with.

    Args:
        value: A structure of tensors whose first dimension is the samples; scalars and None in it stay as they are.
        dtype: What floating tensors are converted to first, where they are narrower.

    Returns:
        The structure with the rows of all replicas in their order, the same on every replica.
    """
    step = current_step()

    def own_gradient(upstream: tf.Tensor, own: Backward, nested: bool) -> tf.Tensor:
        if nested:
            raise of_a_loss()
        rows = own(upstream)
        if step is None:
            return rows * tf.cast(replica_count(), rows.dtype)
        return tf.math.divide_no_nan(rows, step.share.fraction(rows.dtype))

    wide = tf.nest.map_structure(lambda leaf: _wide(leaf, dtype), value)
    return _gathered(wide, own_gradient, [has_rows(leaf) for leaf in tf.nest.flatten(wide)])[0]


def gathered_for_rows(value: Any, known: Sequence[bool] | None = None) -> GatheredBatch:
    """Gathers a structure of tensors for outputs of which each replica then takes its own rows.

    The outputs of every replica may depend on the rows of all, so the gradients of all replicas are summed.

    Args:
        value: A structure of tensors whose first dimension is the samples; scalars and None in it stay as they are.
        known: Which of its leaves have the samples as their first dimension, where that is known.

    Raises:
        UnsupportedError: No tensor in it has rows.
    """
    step = current_step()

    def own_gradient(upstream: tf.Tensor, own: Backward, nested: bool) -> tf.Tensor:
        # In a step of the user's each replica's gradients are weighted by its share, where they are reduced.
        weight = None if step is None else step.weight(upstream.dtype)
        if step is not None and weight is not None and nested:
            upstream, weight = where_shares_are_equal(upstream, step), None
        if weight is not None:
            upstream = upstream * weight
        if step is not None:
            upstream = step.share.of_samples(upstream)
        # Cut off from the graph before it, as in forward/batch_moments.
        rows = own(sum_of_any_size(tf.stop_gradient(upstream)))
        return rows if weight is None else tf.math.divide_no_nan(rows, weight)

    leaves = tf.nest.flatten(value)
    is_gathered = which_gathered(leaves, step) if known is None else list(known)
    if step is not None:
        step.noted.gathered.append(tuple(is_gathered))
    first = next((leaf for leaf, has in zip(leaves, is_gathered, strict=True) if has), None)
    if first is None:
        raise UnsupportedError(
            "tfdist.gathered(...) was called without a tensor that has rows. Expected tensors whose first dimension is "
            f"the samples. Received: {safe_repr(value)}"
        )
    values, places = _gathered(value, own_gradient, is_gathered)
    return GatheredBatch(
        values, places.starts[0], places.totals[0], held=batch_rows.rows(first), is_gathered=tuple(is_gathered)
    )


def which_gathered(leaves: Sequence[Any], step: ReplicaStep | None) -> list[bool]:
    """Returns which tensors have the samples as their first dimension, the same on all replicas, which gather them
    together.

    A fixed first dimension among open ones is not that of the samples: a table, say. In steps that run eagerly every
    size is a number, and a table may have as many rows as one replica has samples, and another replica has not: there a
    tensor is of the samples where its size is theirs on every replica.
    """
    if step is None:
        return [has_rows(leaf) for leaf in leaves]
    may_be = [has_rows(leaf) and leaf.shape[0] in (None, step.share.static_rows) for leaf in leaves]
    if step.share.static_rows is None or not tf.executing_eagerly():
        return may_be
    on_replicas = dense_rows(tf.constant([may_be], tf.bool, [1, len(may_be)]))
    return [bool(is_of_all) for is_of_all in on_replicas.numpy().all(axis=0)]


def _gathered(value: Any, own_gradient: OwnGradient, is_gathered: Sequence[bool]) -> tuple[Any, Places]:
    step = current_step()
    if step is not None and step.trace.within_xla:
        raise NeedsAllRows
    leaves = [
        batch_rows.without_stand_in(leaf) if is_of_samples else leaf
        for leaf, is_of_samples in zip(tf.nest.flatten(value), is_gathered, strict=True)
    ]
    counts = [batch_rows.rows(leaf) for leaf, is_of_samples in zip(leaves, is_gathered, strict=True) if is_of_samples]
    if not counts:
        return value, Places([], [])
    places = _places(counts)
    starts = iter(places.starts)
    rows = [
        _of_all(leaf, next(starts), own_gradient) if is_of_samples else leaf
        for leaf, is_of_samples in zip(leaves, is_gathered, strict=True)
    ]
    return tf.nest.pack_sequence_as(value, rows), places


def _places(counts: list[tf.Tensor]) -> Places:
    if isinstance(settings_of(tf.distribute.get_strategy()).sums, CompiledSums):
        # All replicas have as many, and XLA must know sizes while it compiles.
        replica, replicas = tf.cast(replica_id(), tf.int64), replica_count()
        return Places([count * replica for count in counts], [count * replicas for count in counts])
    of_replicas = dense_rows(tf.stack(counts)[tf.newaxis])
    replica = replica_id()
    starts, totals = tf.reduce_sum(of_replicas[:replica], axis=0), tf.reduce_sum(of_replicas, axis=0)
    return Places(tf.unstack(starts, num=len(counts)), tf.unstack(totals, num=len(counts)))


def _of_all(leaf: Any, start: tf.Tensor, own_gradient: OwnGradient) -> Any:
    """One tensor with the rows of all replicas."""
    if not isinstance(leaf, tf.Tensor) or not leaf.dtype.is_floating:
        return all_rows(leaf)
    count = batch_rows.rows(leaf)

    @tf.custom_gradient
    def gather(tensor: tf.Tensor) -> tuple[tf.Tensor, Backward]:
        return dense_rows(tensor), backward

    def backward(upstream: tf.Tensor) -> tf.Tensor:
        nested = is_nested()

        @tf.custom_gradient
        def own_part(upstream: tf.Tensor) -> tuple[tf.Tensor, Backward]:
            # Its own gradient, in a gradient of a gradient, goes the other way: rows of each replica to all of them.
            return own_gradient(upstream, lambda rows: rows[start : start + count], nested), gather

        # The gradient of a lookup comes as slices.
        return own_part(tf.convert_to_tensor(upstream))

    return changed(leaf, lambda tensor: gather(tensor) if tensor.dtype.is_floating else dense_rows(tensor))


def _wide(leaf: Any, dtype: Any) -> Any:
    """A floating tensor in a dtype no narrower than `dtype`, so that its gradient is weighted before it is rounded."""
    if not isinstance(leaf, tf.Tensor) or not leaf.dtype.is_floating or leaf.dtype.size >= tf.as_dtype(dtype).size:
        return leaf
    wide = tf.cast(leaf, dtype)
    mask = backend.get_keras_mask(leaf)
    if mask is not None:
        backend.set_keras_mask(wide, mask)
    return wide
