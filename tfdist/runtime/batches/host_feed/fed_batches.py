"""The channels of a host's feed as datasets of TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import errors_impl
from tensorflow.python.ops import gen_dataset_ops

from tfdist.errors import DataError, UnsupportedError
from tfdist.runtime.batches.host_feed.batch_notes import FailureNote
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer, share_rows
from tfdist.runtime.batches.host_feed.drawing import Drawing
from tfdist.runtime.batches.host_feed.host_feed import FeedChannel, HostFeed
from tfdist.runtime.batches.replica_batches import (
    UNEQUAL_ROWS,
    ReplicaBatch,
    are_of_samples,
    no_autotune_options,
    per_replica,
)
from tfdist.runtime.workers import local_replicas
from tfdist.text import safe_str

KEPT_FUNCTIONS = 64
"""Kinds of elements whose functions are kept: those of the data of some models."""


@dataclass(frozen=True)
class FedBatches:
    """Global batches that one worker of a host draws, and each worker's slices of them.

    Attributes:
        feed: This worker's channels.
        batches: The global batches; only the worker that draws iterates over them.
        spec: That of a replica's slice, a `ReplicaBatch`; all parts of its data are dense tensors of numbers.
        strategy: The strategy in force.
        shares_rows: Whether all arrays of samples have as many rows; None: as many as in the first batch.
        are_rows: Whether what is drawn are `MappedRows` of the batches.
        part: Returns those of `batches` that an iterator draws.
    """

    feed: HostFeed
    batches: tf.data.Dataset
    spec: ReplicaBatch
    strategy: tf.distribute.Strategy
    shares_rows: bool | None = True
    are_rows: bool = False
    part: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda batches: batches

    def open(self) -> tuple[tf.distribute.DistributedDataset, FeedChannel]:
        """The slices for one iterator, and the channel that they come from, which lives as long as its user keeps it.

        All workers of the host call it together. On the worker that draws it begins to iterate over `batches`.
        """
        leaves = tf.nest.flatten(self.spec.data)
        has_rows = tuple(are_of_samples([leaf.shape for leaf in leaves]))
        slicer = BatchSlicer(
            self.strategy.num_replicas_in_sync,
            local_replicas(self.strategy),
            has_rows,
            self.spec.counting != (),
            self.spec.extent != (),
            self.shares_rows,
            self.are_rows,
        )
        dtypes = [leaf.dtype.as_numpy_dtype for leaf in leaves] + [np.int64] * (2 * self.are_rows)

        drawn_rows = (*has_rows, False, False) if self.are_rows else has_rows

        def make_drawing(readers: Sequence[Any]) -> Drawing:
            # Now, and not in the thread: each iterator over a dataset draws seeds of its own.
            try:
                batches = iter(self.part(self.batches).with_options(no_autotune_options()))
                drawn = _arrays_of(batches, drawn_rows, self.shares_rows)
            except tf.errors.OpError as error:
                # The others wait for this channel, and are to raise the same.
                drawn = _raising(error)
            return Drawing(drawn, slicer.rows, _failure_of, readers)

        channel = self.feed.open(make_drawing, slicer, [np.dtype(dtype) for dtype in dtypes], _error_of)

        number = channel.number

        def make(ids: Sequence[int]) -> tf.data.Dataset:
            return _ChannelDataset(self.feed, number, self.spec).prefetch(len(ids))

        return per_replica(make, self.strategy), channel


class _ChannelDataset(dataset_ops.DatasetSource):
    """The slices that come through a channel."""

    def __init__(self, feed: HostFeed, number: int, spec: ReplicaBatch) -> None:
        self._element_spec = spec
        # Kept as long as the dataset, as TensorFlow itself does.
        self._channel_functions = _functions_of(feed, tuple(tf.nest.flatten(spec)))
        functions = self._channel_functions
        variant = gen_dataset_ops.generator_dataset(
            [tf.constant(number, tf.int64)],
            [],
            [],
            init_func=functions.begin,
            next_func=functions.next,
            finalize_func=functions.end,
            **self._flat_structure,
        )
        super().__init__(variant)

    @property
    def element_spec(self) -> Any:
        return self._element_spec


@dataclass(frozen=True)
class _Functions:
    """Those of a `generator_dataset`, as concrete functions; the state that they are given is a channel's number."""

    begin: Any
    next: Any
    end: Any


@functools.lru_cache(KEPT_FUNCTIONS)
def _functions_of(feed: HostFeed, leaves: tuple[tf.TensorSpec, ...]) -> _Functions:
    """The functions for slices of a kind: TensorFlow takes longer to trace them than to run an evaluation."""
    number = tf.TensorSpec([], tf.int64)

    def next_slice(number: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.numpy_function(feed.next_slice, [number], [leaf.dtype for leaf in leaves])
        return [tf.ensure_shape(part, leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]

    with tf.device("CPU:0"):
        return _Functions(
            begin=_traced(tf.identity, number),
            next=_traced(next_slice, number),
            end=_traced(lambda number: tf.constant(0, tf.int64), number),
        )


def _traced(function: Callable[..., Any], signature: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=[signature], autograph=False).get_concrete_function()


def _arrays_of(batches: Any, has_rows: Sequence[bool], shares_rows: bool | None) -> Iterator[list[NDArray]]:
    """The arrays of what TensorFlow's iterator gives, without the structure, which takes as long to make as a batch.

    Raises:
        UnsupportedError: Arrays that have rows of samples have different numbers of them, and are to have as many.
    """
    kinds = {"output_types": batches._flat_output_types, "output_shapes": batches._flat_output_shapes}
    while True:
        try:
            leaves = tf.raw_ops.IteratorGetNext(iterator=batches._iterator_resource, **kinds)
        except tf.errors.OutOfRangeError:
            return
        # Not a copy, as `numpy()` makes one.
        arrays = [leaf._numpy() for leaf in leaves]
        is_even = share_rows(arrays, has_rows)
        shares_rows = is_even if shares_rows is None else shares_rows
        if shares_rows and not is_even:
            counts = [len(array) for array, has in zip(arrays, has_rows, strict=True) if has]
            raise UnsupportedError(f"{UNEQUAL_ROWS} {counts}")
        yield arrays


def _raising(error: Exception) -> Iterator[list[NDArray]]:
    def fail() -> list[NDArray]:
        raise error

    return iter(fail, [])


def _failure_of(error: Exception) -> FailureNote:
    if isinstance(error, tf.errors.OpError):
        return FailureNote(error.error_code, error.message)
    return FailureNote(None, f"{type(error).__name__}: {safe_str(error)}")


def _error_of(failure: FailureNote) -> Exception:
    """Returns what the error of the data is on every worker: TensorFlow's of the same kind and text."""
    if failure.code is None:
        return DataError(f"The batches cannot be handed to the workers of this host: {failure.text}")
    return errors_impl.exception_type_from_error_code(failure.code)(None, None, failure.text)
