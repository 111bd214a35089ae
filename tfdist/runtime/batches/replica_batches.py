"""Feeds batches to the replicas: one dataset a worker, whose elements go to its replicas in turn.

Each iterator over a distributed dataset has one of them a device: it asks an iterator of the worker for the device's
next element. TensorFlow traces six functions for each of them whenever an iterator is made, at the begin of every epoch
and every evaluation. They are the same but for the iterator that they ask, which is an argument here, so that they are
traced once for a device and a kind of elements. TensorFlow's tuner is kept out of them, too: deleting an iterator waits
for it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops, debug_mode, multi_device_iterator_ops
from tensorflow.python.eager import context
from tensorflow.python.framework import type_utils
from tensorflow.python.ops import functional_ops, gen_dataset_ops

from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas

_TEXT, _NUMBER = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)

KEPT_FUNCTIONS = 256
"""Of devices and kinds of elements whose functions are kept: those of some models on all devices of a machine."""


def no_autotune_options() -> tf.data.Options:
    """Options under which deleting an iterator returns at once and order never varies.

    tf.data's autotuner sleeps between its looks, up to a minute after a while, and deleting an iterator waits for it;
    every end of an epoch would pay for that. Pipelines name their parallelism and buffers instead.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    return options


@contextlib.contextmanager
def no_debug_mode() -> Iterator[None]:
    """Inside, tf.data's debug mode is off, which runs functions of pipelines in Python: those that cut batches capture
    tensors of a graph. A user's own pipeline was made before, and is debugged."""
    before = debug_mode.DEBUG_MODE
    debug_mode.toggle_debug_mode(False)
    try:
        yield
    finally:
        debug_mode.toggle_debug_mode(before)


@functools.cache
def make_lasting() -> None:
    """Lets all further iterators over distributed datasets share their functions, and go at once.

    TensorFlow has no public switch for either.
    """
    elements = multi_device_iterator_ops._PerDeviceGenerator
    original, of_device = elements.__init__, multi_device_iterator_ops._create_device_dataset

    @functools.wraps(original)
    def init(self: Any, *args: Any, iterator_is_anonymous: bool) -> None:
        # Those that a graph makes, or that are to begin anew, are TensorFlow's own.
        if iterator_is_anonymous and tf.executing_eagerly():
            _init_sharing(self, *args)
        else:
            original(self, *args, iterator_is_anonymous=iterator_is_anonymous)

    @functools.wraps(of_device)
    def create(elements: Any, incarnation: tf.Tensor, prefetched: int, slack: bool) -> tf.data.Dataset:
        if isinstance(getattr(elements, "_functions", None), _Functions):
            made = elements.prefetch(prefetched) if prefetched else elements
        else:
            made = of_device(elements, incarnation, prefetched, slack)
        return made.with_options(no_autotune_options())

    elements.__init__ = init
    multi_device_iterator_ops._create_device_dataset = create


def _init_sharing(
    self: Any, shard: int, iterator: tf.Tensor, incarnation: tf.Tensor, source: tf.Tensor, element_spec: Any
) -> None:
    """Makes the dataset of a device's elements, under that device.

    Args:
        self: The dataset.
        shard: The device's place among those of the iterator.
        iterator: The worker's iterator over several devices, a resource.
        incarnation: Of the iterator, int64 scalar.
        source: The device that the iterator is on, a scalar of text.
        element_spec: Of an element.
    """
    self._element_spec = element_spec
    # Kept as long as the dataset, as TensorFlow itself does.
    self._functions = _functions_of(context.context().device_name, shard, tuple(tf.nest.flatten(element_spec)))
    handle = gen_dataset_ops.multi_device_iterator_to_string_handle(iterator)
    variant = gen_dataset_ops.generator_dataset(
        [source, handle],
        # The last one is used by nobody: it keeps the iterator.
        [source, incarnation, iterator],
        [source],
        init_func=self._functions.begin,
        next_func=self._functions.next,
        finalize_func=self._functions.end,
        **self._flat_structure,
    )
    dataset_ops.DatasetV2.__init__(self, variant)


@dataclass(frozen=True)
class _Functions:
    """Those of a generator of elements, as concrete functions: `begin` gives the state that the others are given."""

    begin: Any
    next: Any
    end: Any


@functools.lru_cache(KEPT_FUNCTIONS)
def _functions_of(device: str, shard: int, leaves: tuple[tf.TypeSpec, ...]) -> _Functions:
    """The functions for the elements of a device, traced under it; they keep no iterator and no data."""
    types = {
        "output_types": [dtype for leaf in leaves for dtype in dataset_ops.structure.get_flat_tensor_types(leaf)],
        "output_shapes": [shape for leaf in leaves for shape in dataset_ops.structure.get_flat_tensor_shapes(leaf)],
    }

    def next_of(handle: tf.Tensor, incarnation: tf.Tensor) -> list[tf.Tensor]:
        iterator = gen_dataset_ops.multi_device_iterator_from_string_handle(handle, **types)
        return gen_dataset_ops.multi_device_iterator_get_next_from_shard(
            multi_device_iterator=iterator, shard_num=shard, incarnation_id=incarnation, **types
        )

    there = _Functions(
        begin=_traced(lambda handle: handle, _TEXT),
        next=_traced(next_of, _TEXT, _NUMBER),
        end=_traced(lambda handle: tf.constant(0, tf.int64), _TEXT),
    )

    def begin(source: tf.Tensor, handle: tf.Tensor) -> list[tf.Tensor]:
        return functional_ops.remote_call(target=source, args=[handle], Tout=[tf.string], f=there.begin)

    def next_there(handle: tf.Tensor, source: tf.Tensor, incarnation: tf.Tensor) -> list[tf.Tensor]:
        values = functional_ops.remote_call(
            target=source, args=[handle, incarnation], Tout=types["output_types"], f=there.next
        )
        # So that texts, and ragged and sparse tensors of them, stay on the host.
        kinds = type_utils.fulltype_list_to_product(type_utils.fulltypes_for_flat_tensors(leaves))
        for value in values:
            value.op.experimental_set_type(kinds)
        return values

    def end(handle: tf.Tensor, source: tf.Tensor) -> list[tf.Tensor]:
        return functional_ops.remote_call(target=source, args=[handle], Tout=[tf.int64], f=there.end)

    return _Functions(
        begin=_traced(begin, _TEXT, _TEXT),
        next=_traced(next_there, _TEXT, _TEXT, _NUMBER, experimental_attributes={"experimental_ints_on_device": True}),
        end=_traced(end, _TEXT, _TEXT),
    )


def _traced(function: Any, *signature: tf.TensorSpec, **options: Any) -> Any:
    return tf.function(function, input_signature=signature, autograph=False, **options).get_concrete_function()


class GlobalBatch(NamedTuple):
    """A whole global batch, the same on every replica, each of which cuts out its slice in its step.

    Attributes:
        data: A structure of tensors.
    """

    data: Any


class ReplicaBatch(NamedTuple):
    """A replica's slice of a global batch, as the repaired `fit`, `evaluate` and `predict` pass it to the replica.

    Attributes:
        data: The slice, a structure of tensors; one row of other samples, to stand in, where the slice has no sample.
        samples: Scalar int64 tensor, how many samples the slice has; may be 0.
        first: Scalar int64 tensor, the place of the slice's first row in the global batch.
        total: Scalar int64 tensor, the samples of the global batch.
        counting: Scalar int64 tensor, how many replicas have a sample of it; () where it is known of all batches of the
            data that every replica has one, so that a step need not look.
        largest: Scalar int64 tensor, samples of which an even part is as large as any slice of the epoch so far; ()
            where that is not known.
        extent: Bools [total, 0]: a shape that says how many samples the global batch has, which is known without a look
            at a GPU's memory, and in a trace for batches of one size as a number; () where nobody asks.
        whole: A tensor where the data are the whole global batch, of which no replica can be given a slice: its tensors
            have different numbers of rows. () elsewhere.
    """

    data: Any
    samples: tf.Tensor
    first: tf.Tensor
    total: tf.Tensor
    counting: tf.Tensor | tuple[()]
    largest: tf.Tensor | tuple[()]
    extent: tf.Tensor | tuple[()] = ()
    whole: tf.Tensor | tuple[()] = ()


UNEQUAL_ROWS = (
    "The tensors of a batch have different numbers of rows (the nodes and edges of a graph, say), and those of the "
    "first batch had as many each, so replicas were to get parts of the samples. Expected as many rows in each, or "
    "different ones from the first batch on, which every replica takes whole. Give each sample one element of every "
    "tensor, such as a graph with its edges in a ragged tensor; or run on one device (`tfdist train` without "
    "--workers, --nproc and --logical-devices). Received rows:"
)


def are_of_samples(shapes: Sequence[tf.TensorShape | None]) -> list[bool]:
    """Returns which tensors of a batch have a row for each sample, by their shapes; None is that of what is no tensor.

    Where the batches have any size, one of a fixed size has not: it is a table beside the samples, the same for all.
    """
    have = [shape is not None and shape.rank != 0 for shape in shapes]
    are_open = [shape is not None and shape.rank != 0 and shape[0] is None for shape in shapes]
    return are_open if any(are_open) else have


def extent_of(total: tf.Tensor | int) -> tf.Tensor:
    """The `ReplicaBatch.extent` of a global batch of `total` samples."""
    return tf.zeros([total, 0], tf.bool)


def piece_bounds(samples: tf.Tensor, replicas: int, index: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """`order.epoch_order.bounds` on tensors: where the slice of replica `index` begins and ends in a global batch.

    Args:
        samples: Scalar int64 tensor, those of the global batch.
        replicas: How many replicas there are.
        index: A replica's id, an int or a scalar tensor.
    """
    index = tf.cast(index, samples.dtype)
    return -(-index * samples // replicas), -(-(index + 1) * samples // replicas)


def per_replica(
    make: Callable[[Sequence[int]], tf.data.Dataset], strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Feeds every replica its own batches.

    Args:
        make: Called once on each worker with the ids of its replicas. Returns a dataset whose consecutive elements are
            the batches of those replicas in turn (step 0 of the first, step 0 of the second, ..., step 1 of the first),
            as many steps on every worker. Batches may differ in size and may be empty.
        strategy: A strategy of more than one replica.

    Returns:
        A distributed dataset that Keras `fit` accepts. Its cardinality counts global steps.
    """
    made = []

    def dataset_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        with no_debug_mode():
            made.append(make(local_replicas(strategy)).with_options(no_autotune_options()))
        return made[-1]

    make_lasting()
    distributed = strategy.distribute_datasets_from_function(dataset_of_worker)
    # As every worker has the same number of steps, none needs to ask the others at each step whether they have data
    # left: TensorFlow would spend a blocking collective a step on that. It offers no public switch.
    distributed._enable_get_next_as_optional = False
    # TensorFlow counts the elements of one worker's dataset, Keras shows the figure as the steps of an epoch.
    if distributed.cardinality > 0:
        distributed._cardinality = distributed.cardinality // len(local_replicas(strategy))
    if len(strategy.extended.worker_devices) == 1 and not settings_of(strategy).on_gpus:
        (description_of(distributed).of_only_replica,) = made
    return distributed
