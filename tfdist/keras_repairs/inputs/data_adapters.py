"""Cuts each global batch of the data given to `fit`, `evaluate` and `predict` into the replicas' slices.

TensorFlow's own distribution rebatches and shards by rules that depend on the dataset's kind, may leave workers with
unequal numbers of steps, and asks all workers at every step whether data is left. Here each worker iterates the same
global batches and keeps the rows of its replicas, so every step has the samples of one replica's step, in its order.
Where batches cost something to make, one worker of each host draws them for all of it (`host_drawing`). Maps of single
samples run for the rows that a host or a worker needs (`mapped_rows`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import are_of_samples, cut, rows, share_rows, static_rows, with_known_rows
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.batches.host_feed.fed_batches import FedBatches
from tfdist.runtime.batches.mapped_rows import MappedRows, maps_of_rows, replicas_drawn_for
from tfdist.runtime.batches.replica_batches import (
    KEPT_FUNCTIONS,
    UNEQUAL_ROWS,
    ReplicaBatch,
    extent_of,
    per_replica,
    piece_bounds,
)
from tfdist.runtime.batches.replica_batches import (
    are_of_samples as are_of_shapes,
)
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas

_Policy = tf.data.experimental.AutoShardPolicy


def distribute(
    dataset: Any,
    strategy: tf.distribute.Strategy,
    smallest: int = 0,
    *,
    once: bool = False,
    shares_rows: bool | None = True,
    part: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda dataset: dataset,
) -> Any:
    """Cuts every global batch of `dataset` into the replicas' slices; what is distributed already stays as it is.

    Args:
        dataset: A `tf.data.Dataset` of global batches, or a distributed dataset.
        strategy: A strategy of several replicas.
        smallest: No batch has fewer samples.
        once: Whether one worker of each host draws the batches for all of its workers. The result then describes the
            slices, as it would be without; those that are drawn once come from its description's `fed`.
        shares_rows: Whether all tensors of a batch have as many rows each, where shapes leave that open; None: as many
            as they have in the first batch of an iterator. Each replica gets whole batches where they have not.
        part: Returns the batches, or what is drawn of them, that are cut.
    """
    if isinstance(dataset, tf.distribute.DistributedDataset):
        make_replica_batches = description_of(dataset).replica_batches
        return dataset if make_replica_batches is None else make_replica_batches()
    _check_policy(dataset, strategy)
    replicas = strategy.num_replicas_in_sync

    specs = []
    shows_extent = settings_of(strategy).nccl is not None

    maps = maps_of_rows(dataset, strategy, once=once)
    needed = dataset
    if maps is not None:
        needed = maps.rows_of(replicas_drawn_for(strategy, once=once), replicas)
        smallest = max(smallest, maps.size if maps.drops_remainder else 0)

    def make(ids: Sequence[int]) -> tf.data.Dataset:
        own = dataset if once else part(needed)
        slices = _slices(own, smallest, ids, replicas, shares_rows, shows_extent=shows_extent)
        specs.append(slices.element_spec)
        return slices

    distributed = per_replica(make, strategy)
    feed = settings_of(strategy).feed
    if once and feed is not None and specs and isinstance(specs[0].whole, tuple):
        fed = FedBatches(feed, needed, specs[0], strategy, shares_rows, are_rows=maps is not None, part=part)
        description_of(distributed).fed = fed
    return distributed


def smallest_batch(adapter: Any) -> int:
    """The samples that each batch of one of Keras's data adapters has at least, where that is known of arrays; else 0.

    The shapes of a `tf.data.Dataset`'s batches say it themselves.
    """
    return (adapter.partial_batch_size or adapter.batch_size) if isinstance(adapter, ArrayDataAdapter) else 0


def replica_batch_of(
    batch: Any,
    largest: tf.Tensor,
    index: Any,
    replicas: int,
    *,
    smallest: int = 0,
    shows_extent: bool = False,
    is_shared: tf.Tensor | None = None,
) -> ReplicaBatch:
    """The slice of a global batch that belongs to replica `index`, and what a step must know of the whole.

    Args:
        batch: A structure of tensors (dense, ragged or sparse) that share their first dimension; or the `MappedRows` of
            some replicas, this one among them.
        largest: As in `ReplicaBatch`.
        index: A replica's id, an int or a scalar int64 tensor.
        replicas: How many replicas there are.
        smallest: No batch of the data has fewer samples.
        shows_extent: Whether the slice has an extent, even where the size of the batch is not known beforehand.
        is_shared: Scalar bool tensor, whether the tensors of the data have as many rows each, where shapes do not say
            it; None where they do. Each replica gets the whole batch where they have not.
    """
    if isinstance(batch, MappedRows):
        return _of_rows(batch, largest, index, replicas, smallest, shows_extent=shows_extent)
    total = rows(batch)
    first, end = piece_bounds(total, replicas, index)
    known = static_rows(batch)
    extent = extent_of(total if known is None else known) if shows_extent or known is not None else ()
    if not share_rows(batch):
        return ReplicaBatch(
            batch, end - first, first, total, tf.minimum(total, replicas), largest, extent, tf.constant(True)
        )
    if max(smallest, known or 0) >= replicas:
        data = _piece(batch, first, end, is_shared)
        if known is not None and known % replicas == 0 and is_shared is None:
            data = with_known_rows(data, known // replicas)
        return ReplicaBatch(data, end - first, first, total, (), largest, extent)
    data = _piece(batch, *with_stand_in(first, end), is_shared)
    # Cut as evenly as can be: of fewer samples than replicas, as many have one.
    return ReplicaBatch(data, end - first, first, total, tf.minimum(total, replicas), largest, extent)


def _of_rows(
    mapped: MappedRows, largest: tf.Tensor, index: Any, replicas: int, smallest: int, *, shows_extent: bool
) -> ReplicaBatch:
    total, before = mapped.total, mapped.first
    first, end = piece_bounds(total, replicas, index)
    data = cut(mapped.data, *with_stand_in(first - before, end - before))
    if smallest and smallest % replicas == 0:
        data = with_known_rows(data, smallest // replicas)
    # Those of a pipeline are all as large as the smallest, where that is known.
    extent = extent_of(smallest or total) if shows_extent or smallest else ()
    counting = () if smallest >= replicas else tf.minimum(total, replicas)
    return ReplicaBatch(data, end - first, first, total, counting, largest, extent)


def _piece(batch: Any, start: tf.Tensor, end: tf.Tensor, is_shared: tf.Tensor | None) -> Any:
    if is_shared is None:
        return cut(batch, start, end)
    return tf.cond(is_shared, lambda: cut(batch, start, end), lambda: tf.nest.map_structure(tf.identity, batch))


def given(batch: Any) -> Any:
    """A batch with None for absent parts, which a dataset holds as empty optionals."""
    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def with_stand_in(first: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The bounds of a replica's rows; without samples, those of the first row of the batch, which counts nowhere."""
    is_empty = first == end
    return tf.where(is_empty, tf.zeros_like(first), first), tf.where(is_empty, tf.ones_like(end), end)


def _slices(
    dataset: tf.data.Dataset,
    smallest: int,
    ids: Sequence[int],
    replicas: int,
    shares_rows: bool | None,
    *,
    shows_extent: bool,
) -> tf.data.Dataset:
    spec = dataset.element_spec
    kind = str(tf.nest.map_structure(lambda leaf: 0, spec)), *tf.nest.flatten(spec)
    functions = _functions_of(kind, smallest, tuple(ids), replicas, shares_rows, shows_extent)
    nothing = _Seen(tf.constant(0, tf.int64), tf.constant(_UNKNOWN if shares_rows is None else int(shares_rows)))
    if len(ids) == 1:
        return dataset.scan(nothing, functions.of_only_one).prefetch(2)
    slices = dataset.scan(nothing, functions.with_seen).flat_map(functions.of_all)
    steps = int(dataset.cardinality())
    if steps != tf.data.UNKNOWN_CARDINALITY:
        elements = steps if steps == tf.data.INFINITE_CARDINALITY else steps * len(ids)
        slices = slices.apply(tf.data.experimental.assert_cardinality(elements))
    return slices.prefetch(2 * len(ids))


@dataclass(frozen=True)
class _Functions:
    """Those that cut batches: for a dataset of batches, each is traced once."""

    of_only_one: Callable[..., Any]
    with_seen: Callable[..., Any]
    of_all: Callable[..., Any]


@functools.lru_cache(KEPT_FUNCTIONS)
def _functions_of(
    kind: tuple[Any, ...],
    smallest: int,
    ids: Sequence[int],
    replicas: int,
    shares_rows: bool | None,
    shows_extent: bool,
) -> _Functions:
    """The functions for batches of a kind: a structure, and the specs of its tensors. They keep no data.

    Each fit makes new datasets, most of them of batches of the same kind.
    """

    def piece(batch: Any, seen: _Seen, index: Any) -> ReplicaBatch:
        return replica_batch_of(
            batch,
            seen.largest,
            index,
            replicas,
            smallest=smallest,
            shows_extent=shows_extent,
            is_shared=tf.equal(seen.shared, _YES) if not shares_rows and leaves_rows_open(batch) else None,
        )

    def of_only_one(seen: _Seen, *batch: Any) -> tuple[_Seen, ReplicaBatch]:
        seen, (whole, _) = _with_seen(seen, *batch)
        return seen, piece(whole, seen, ids[0])

    def of_all(batch: Any, seen: _Seen) -> tf.data.Dataset:
        return tf.data.Dataset.range(ids[0], ids[-1] + 1).map(lambda index: piece(batch, seen, index))

    return _Functions(_traced_once(of_only_one), _traced_once(_with_seen), _traced_once(of_all))


def _traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled = tf.function(function, autograph=False)

    @tf.autograph.experimental.do_not_convert
    def of_values(*values: Any) -> Any:
        return compiled.get_concrete_function(*values)(*values)

    return of_values


class _Seen(NamedTuple):
    """The facts that the batches of an iterator have shown so far.

    Attributes:
        largest: Scalar int64 tensor, the samples of the largest one.
        shared: Whether the tensors of the first one had as many rows each, an int32 scalar.
    """

    largest: tf.Tensor
    shared: tf.Tensor


_UNKNOWN, _NO, _YES = -1, 0, 1


def _with_seen(seen: _Seen, *batch: Any) -> tuple[_Seen, tuple[Any, _Seen]]:
    """Step of a scan: each batch with what was seen up to it."""
    whole = batch if len(batch) > 1 else batch[0]
    shared = seen.shared
    if leaves_rows_open(whole):
        leaves = tf.nest.flatten(whole)
        open_leaves = [leaf for leaf, has in zip(leaves, are_of_samples(leaves), strict=True) if has]
        counts = tf.stack([rows(leaf) for leaf in open_leaves])
        is_even = tf.reduce_all(counts == counts[0])
        shared = tf.where(tf.equal(shared, _UNKNOWN), tf.cast(is_even, tf.int32), shared)
        # A batch that is not as the first one was has rows that belong together, and nobody knows which.
        check = tf.debugging.Assert(tf.logical_or(is_even, tf.equal(shared, _NO)), [UNEQUAL_ROWS, counts])
        with tf.control_dependencies([] if check is None else [check]):
            shared = tf.identity(shared)
    samples = whole.total if isinstance(whole, MappedRows) else rows(whole)
    now = _Seen(tf.maximum(seen.largest, samples), shared)
    return now, (whole, now)


def leaves_rows_open(batch: Any) -> bool:
    """Returns whether the shapes of a batch, or of a spec of batches, leave open if its tensors have as many rows
    each."""
    shapes = [getattr(leaf, "shape", None) for leaf in tf.nest.flatten(batch)]
    sizes = [shape[0] for shape, has in zip(shapes, are_of_shapes(shapes), strict=True) if has and shape is not None]
    return len(sizes) > 1 and None in sizes


def _check_policy(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> None:
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if len(local_replicas(strategy)) == strategy.num_replicas_in_sync:
        return
    if policy == _Policy.OFF:
        raise UnsupportedError(
            "A tf.data.Dataset with auto_shard_policy OFF was given to Keras on several workers: it says that each "
            "worker's data is already its own share, and tfdist would cut it once more. Expected a dataset that is the "
            "same on every worker, of global batches. Give each worker the whole dataset and leave the policy out, or "
            "build the pipeline with tfdist.data, where each worker reads its own share alone. On one machine, "
            "--nproc 1 runs one process on all of its GPUs."
        )
    if policy in (_Policy.FILE, _Policy.HINT):
        warn_once(
            f"auto_shard_policy {policy.name} is ignored: every host reads the whole tf.data.Dataset, and each worker "
            "takes its rows of each batch, which is exact. To read each file on one worker only, use tfdist.data."
        )
