"""Pipelines that map single samples before they are batched: each host or worker maps the rows that it needs alone.

In `source.shuffle(...).map(decode).batch(size)` a row of a batch depends on its sample alone. So the source is read as
on one device, in its order and with its seeds, and of each batch only some samples go through `decode`. That must be a
function of its sample: without random numbers, variables and Python code, and of one shape.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.data.util import structure
from tensorflow.python.framework import op_def_registry

from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas

_MAPS = frozenset({"Map", "ParallelMap"})
_BATCHES = frozenset({"Batch", "ParallelBatch"})
_UNCHANGED = frozenset({"Options", "Prefetch"})
_COUNTED = frozenset({"Repeat", "Skip", "Take"})

_HARMLESS = frozenset({"Assert", "Case", "CheckNumerics", "If", "StatefulPartitionedCall", "While"})
"""Operations that TensorFlow counts as stateful, and which give the same for the same sample. Functions that they call
are looked at by themselves."""

_AHEAD = 2
"""Batches that are made before they are asked for."""

_MOST_BYTES = 64 << 20
"""Of the samples of a batch before they are mapped, which lie in memory together, where their size is known."""


class MappedRows(NamedTuple):
    """Rows of a global batch; at least one, which is of no replica where none of these has a sample.

    Attributes:
        data: A structure of tensors `[rows, ...]`.
        total: Scalar int64 tensor, the samples of the global batch.
        first: Scalar int64 tensor, the place of the first row in the global batch.
    """

    data: Any
    total: tf.Tensor
    first: tf.Tensor


@dataclass(frozen=True)
class SampleMaps:
    """The end of a pipeline: what maps its samples, and how they are batched.

    Attributes:
        source: The samples before the maps.
        maps: The stages that map single samples, in their order.
        size: Samples of a batch.
        drops_remainder: Whether a smaller last batch is left out.
        after: The stages behind the batches that leave some out, or repeat them, in their order.
        options: Those of the whole pipeline.
    """

    source: tf.data.Dataset
    maps: tuple[Any, ...]
    size: int
    drops_remainder: bool
    after: tuple[Any, ...]
    options: tf.data.Options

    def rows_of(self, ids: range, replicas: int) -> tf.data.Dataset:
        """The rows of some replicas, of each global batch: `MappedRows`.

        Args:
            ids: The replicas' ids.
            replicas: How many there are in all.
        """
        batches, after = self.source.batch(self.size, drop_remainder=self.drops_remainder), list(self.after)
        while after and _name(after[0]) != "Repeat":
            batches = _counted(batches, after.pop(0))
        spec, steps, most = self.source.element_spec, int(batches.cardinality()), _most_rows(ids, replicas, self.size)

        @tf.autograph.experimental.do_not_convert
        def own(*batch: Any) -> tuple[Any, tf.Tensor, tf.Tensor]:
            leaves = tf.nest.flatten(batch)
            total = tf.shape(leaves[0], out_type=tf.int64)[0]
            start, end = _bounds(ids, replicas, total)
            # Full batches give as many rows each, so that `batch` finds them again; only the last may have fewer.
            rows = tf.range(start, tf.where(total == self.size, start + most, end))
            chosen = [tf.gather(leaf, tf.minimum(rows, end - 1)) for leaf in leaves]
            totals, starts = (tf.fill(tf.shape(rows), number) for number in (total, start))
            return tf.nest.pack_sequence_as(spec, chosen), totals, starts

        rows = batches.map(own).unbatch()
        for stage in self.maps:
            rows = rows.map(_mapping(stage), _static(getattr(stage, "_num_parallel_calls", None)))
        mapped = rows.batch(most).map(functools.partial(_mapped_rows, ids, replicas))
        if steps != tf.data.UNKNOWN_CARDINALITY:
            mapped = mapped.apply(tf.data.experimental.assert_cardinality(steps))
        for stage in after:
            mapped = _counted(mapped, stage)
        return mapped.prefetch(_AHEAD).with_options(self.options)


@tf.autograph.experimental.do_not_convert
def _mapped_rows(ids: range, replicas: int, data: Any, totals: tf.Tensor, starts: tf.Tensor) -> MappedRows:
    """The rows of one global batch, without those that were added to have as many in each."""
    start, end = _bounds(ids, replicas, totals[0])
    return MappedRows(tf.nest.map_structure(lambda leaf: leaf[: end - start], data), totals[0], starts[0])


def _bounds(ids: range, replicas: int, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The first row of some replicas in a batch of `total` samples, and the one after the last; never the same."""
    first, end = (-(-bound * total // replicas) for bound in (ids.start, ids.stop))
    start = tf.minimum(first, total - 1)
    return start, tf.maximum(end, start + 1)


def _most_rows(ids: range, replicas: int, size: int) -> int:
    """The most rows that some replicas have of a batch: of `size` samples, or of somewhat fewer at the end."""
    # With one more sample for each replica none has fewer.
    totals = range(max(size - replicas, 0), size + 1)
    return max(1, *(-(-ids.stop * total // replicas) - -(-ids.start * total // replicas) for total in totals))


def _counted(dataset: tf.data.Dataset, stage: Any) -> tf.data.Dataset:
    """A dataset with a stage that repeats its elements, or leaves some out."""
    return getattr(dataset, _name(stage).lower())(stage._count)


def replicas_drawn_for(strategy: tf.distribute.Strategy, *, once: bool) -> range:
    """The replicas for which this worker draws batches: its own ones, or those of its host, with those between them.

    Args:
        strategy: The strategy in force.
        once: Whether one worker of each host draws for all of it.
    """
    own, feed = local_replicas(strategy), settings_of(strategy).feed
    if not once or feed is None:
        return own
    return range(min(feed.workers) * len(own), (max(feed.workers) + 1) * len(own))


def maps_of_rows(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy, *, once: bool) -> SampleMaps | None:
    """The maps of single samples that this worker runs for some rows alone; None where it runs all or there are none.

    Args:
        dataset: Of global batches.
        strategy: The strategy in force.
        once: Whether one worker of each host draws for all of it.
    """
    needs_all = len(replicas_drawn_for(strategy, once=once)) == strategy.num_replicas_in_sync
    return None if needs_all else sample_maps(dataset)


def sample_maps(dataset: tf.data.Dataset) -> SampleMaps | None:
    """The maps of single samples at the end of a pipeline; None where there are none that can be run for some alone."""
    options = dataset.options()
    if options.deterministic is False:
        return None
    after, stage = [], dataset
    while _name(stage) in _UNCHANGED | _COUNTED:
        after.extend([stage] if _name(stage) in _COUNTED else [])
        (stage,) = stage._inputs()
    if _name(stage) not in _BATCHES:
        return None
    size, drops = _static(stage._batch_size), _static(stage._drop_remainder)
    (source,) = stage._inputs()
    maps = []
    for below in _chain(source):
        if _name(below) in _MAPS:
            if not _is_of_its_sample(below):
                break
            maps.append(below)
            (source,) = below._inputs()
    specs = tf.nest.flatten(source.element_spec)
    if not maps or not size or not all(map(_is_batched, specs)) or size * sum(map(_bytes, specs)) > _MOST_BYTES:
        return None
    return SampleMaps(source, tuple(maps[::-1]), int(size), bool(drops), tuple(after[::-1]), options)


def _chain(stage: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """A stage and those before it, as far as they are maps or change nothing."""
    while _name(stage) in _MAPS | _UNCHANGED:
        yield stage
        (stage,) = stage._inputs()


def _name(stage: tf.data.Dataset) -> str:
    """TensorFlow's name of a kind of stages. In some versions their classes begin with an underscore."""
    return type(stage).__name__.removeprefix("_").removesuffix("Dataset")


def _static(value: Any) -> Any:
    return None if value is None else tf.get_static_value(value)


def _is_batched(spec: Any) -> bool:
    """Returns whether samples of a spec always fit into one tensor."""
    return isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined()


def _bytes(spec: tf.TensorSpec) -> int:
    """The size of a sample; 0 of texts, such as encoded images, whose size nobody knows."""
    return 0 if spec.dtype == tf.string else spec.dtype.size * spec.shape.num_elements()


def _is_of_its_sample(stage: Any) -> bool:
    """Returns whether what a map gives depends on its sample alone, and comes in order."""
    if getattr(stage, "_deterministic", "default") == "false":
        return False
    if not all(map(_is_batched, tf.nest.flatten(stage.element_spec))):
        return False
    return all(_is_stateless(function.function.graph) for function in stage._functions())


def _is_stateless(graph: tf.Graph) -> bool:
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for inner in definition.library.function for node in inner.node_def)]
    functions = {inner.signature.name for inner in definition.library.function}
    return all(map(_is_harmless, {node.op for node in nodes} - functions))


def _is_harmless(operation: str) -> bool:
    known = op_def_registry.get(operation)
    is_pure = known is not None and not known.is_stateful and "Dataset" not in operation and "PyFunc" not in operation
    return is_pure or operation in _HARMLESS


def _mapping(stage: Any) -> Any:
    """A map's function, which is traced already, of samples that come with the size of their batch, and the place of
    the first row in it."""
    (source,) = stage._inputs()

    @tf.autograph.experimental.do_not_convert
    def of_sample(sample: Any, total: tf.Tensor, start: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
        parts = stage._map_func.function(*structure.to_tensor_list(source.element_spec, _packed(source, sample)))
        return structure.from_compatible_tensor_list(stage.element_spec, list(parts)), total, start

    return of_sample


def _packed(dataset: tf.data.Dataset, parts: Any) -> Any:
    """The parts of an element, as a function of a dataset gets them, in the dataset's structure."""
    return tf.nest.pack_sequence_as(dataset.element_spec, tf.nest.flatten(parts))
