"""The iterator of an epoch of `fit`, `evaluate` or `predict`: global batches, cut once, and how many are left."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.epoch_iterator import EpochIterator

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.batch_rows import rows
from tfdist.keras_repairs.inputs.data_adapters import distribute, leaves_rows_open, smallest_batch
from tfdist.keras_repairs.inputs.host_drawing import is_drawn_once, warn_of_whole_reading
from tfdist.keras_repairs.inputs.own_shares import OwnShares, are_own_shares
from tfdist.runtime.batches.continued_batches import ContinuedBatches
from tfdist.runtime.batches.dataset_description import (
    Even,
    PartialEpoch,
    description_of,
    even_batches,
    take_partial_epoch,
)
from tfdist.runtime.batches.host_feed.host_feed import FeedChannel
from tfdist.runtime.batches.replica_batches import ReplicaBatch, are_of_samples
from tfdist.runtime.step_meter import StepMeter

Function = Callable[..., Any]


@dataclass
class _EpochSource:
    """The source of the epochs of a `TFEpochIterator`.

    Attributes:
        whole: Its dataset before that was cut for the replicas.
        next: The rest of an epoch, with which the next one starts in place of a whole one.
        current: The rest of an epoch that is the one being opened.
        once: Whether one worker of each host draws the batches for all of its workers.
        shares_rows: Whether all tensors of a batch have as many rows each; None until a first batch has shown it.
        is_cut_so: Whether its batches are cut for what is known of that.
        shares: What the workers' own shares are to each other; None where all workers have the same data.
        is_open: Whether the epoch that runs has its iterator.
        parts: Those of the last iterator over a part of the data for each epoch.
    """

    whole: Any
    next: PartialEpoch | None = None
    current: PartialEpoch | None = None
    once: bool = False
    shares_rows: bool | None = True
    is_cut_so: bool = True
    shares: OwnShares | None = None
    is_open: bool = False
    parts: PartsByEpoch | None = None


_SOURCE: AttachedValue[_EpochSource] = AttachedValue("epoch_source")


def epoch_iterator_init(original: Function) -> Function:
    """Repairs `TFEpochIterator.__init__`: cuts each global batch exactly; pipelines close without waiting."""

    def repaired(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        if distribute_strategy is None or distribute_strategy.num_replicas_in_sync == 1:
            original(self, distribute_strategy, *args, **kwargs)
            _SOURCE.set(self, _EpochSource(self._distributed_dataset))
            return
        EpochIterator.__init__(self, *args, **kwargs)
        self._distribute_strategy = distribute_strategy
        whole = self.data_adapter.get_tf_dataset()
        if are_own_shares(self.data_adapter, distribute_strategy):
            _SOURCE.set(self, _EpochSource(whole, shares=OwnShares(self.data_adapter, whole, distribute_strategy)))
            self._distributed_dataset = _distributed(self, whole)
            return
        once = is_drawn_once(self.data_adapter, whole, distribute_strategy)
        shows_rows = not isinstance(whole, tf.data.Dataset) or isinstance(self.data_adapter, ArrayDataAdapter)
        shares_rows = True if shows_rows or not leaves_rows_open(whole.element_spec) else None
        _SOURCE.set(self, _EpochSource(whole, once=once, shares_rows=shares_rows, is_cut_so=shares_rows is not None))
        warn_of_whole_reading(self.data_adapter, whole, distribute_strategy, once=once)
        self._distributed_dataset = _distributed(self, whole_batches(self))

    return repaired


def whole_batches(iterator: Any) -> Any:
    """The dataset of a `TFEpochIterator` before it was cut for the replicas; mostly one of global batches."""
    source = _SOURCE.get(iterator)
    return iterator._distributed_dataset if source is None else source.whole


def start_partial_epoch(iterator: Any, done: int, batches: Any) -> None:
    """Makes the next epoch of a `TFEpochIterator` resume after `done` steps, with `batches`."""
    _source_of(iterator).next = PartialEpoch(done, lambda: batches)


def epoch_iterator_source(original: Function) -> Function:
    """Repairs `TFEpochIterator._get_iterator`: no part of a step runs after the last batch.

    Keras fetches a batch inside the compiled step. Where it cannot know which batch is the last, it runs one step more
    to find out, and TensorFlow executes the part of it that needs no data: the optimizer counts a step, weights decay,
    random states advance, and not always the same on all replicas. Fetched outside, the end is found before the step.

    At the end of an epoch Keras also makes an iterator that the next epoch replaces unused. Of arrays none is made: it
    would take as long as the one in use. Of a dataset it is, as its seeds are drawn for each iterator.
    """

    def repaired(self: Any) -> Any:
        source = _SOURCE.get(self)
        if source is None:  # It was made before the repairs were installed: plain Keras goes on with it to its end.
            return original(self)
        if source.is_open and self.steps_per_epoch is None and isinstance(self.data_adapter, ArrayDataAdapter):
            return ()
        source.is_open = True
        rest, source.current = source.current, None
        done = 0 if rest is None else rest.done
        if not source.is_cut_so and source.shares_rows is not None:
            source.is_cut_so = True
            self._distributed_dataset = _distributed(self, source.whole)
        batches = source.whole if rest is None else rest.batches()
        is_cut = self._distribute_strategy.num_replicas_in_sync > 1
        goes_on = is_cut and self.steps_per_epoch is not None and isinstance(batches, tf.data.Dataset)
        if goes_on and source.shares is None and not isinstance(self.data_adapter, ArrayDataAdapter):
            dataset = batches
            parts: Parts = _parts_by_epoch(self, source, batches, done)
        else:
            dataset = original(self) if rest is None else _distributed(self, batches)
            parts = Parts(dataset)
        steps = _steps(self.data_adapter, dataset, done) if source.shares is None else None
        # Of several steps in one execution Keras already looks for the end before each.
        overruns = steps is None and self.steps_per_execution == 1
        if not is_cut and not overruns:
            return dataset
        noticed = overruns and self.steps_per_epoch is None and not _is_of_tfdist(source.whole) and not source.shares
        even = _even(self, source.whole) if is_cut and source.shares is None else "none"
        return EpochBatches(parts, steps, self.steps_per_epoch, done, noticed, is_cut, even, source)

    return repaired


def epoch_steps(original: Function) -> Function:
    """Repairs `TFEpochIterator._enumerate_iterator`: an epoch that was begun before resumes with its next step.

    Keras counts the steps that were done before as well, so that batches keep their numbers.
    """

    def repaired(self: Any) -> Iterator[tuple[int, int, Any]]:
        source = _SOURCE.get(self)
        if source is None:
            return iter(original(self))
        if source.shares is not None:
            self._num_batches = source.shares.steps
        rest = source.next or take_partial_epoch(source.whole)
        source.next = None
        source.is_open = False
        if rest is not None:
            source.current = rest
        done = 0 if rest is None else rest.done
        return (step for step in original(self) if step[0] >= done)

    return repaired


def _source_of(iterator: Any) -> _EpochSource:
    source = _SOURCE.get(iterator)
    assert source is not None, "an iterator that was made before the repairs were installed"
    return source


def _parts_by_epoch(iterator: Any, source: _EpochSource, batches: tf.data.Dataset, done: int) -> PartsByEpoch:
    """Those of a new iterator: of the last one, begun anew, where that is possible, as to make them takes longer."""
    if batches is not source.whole or done:
        return PartsByEpoch(iterator, batches, done)
    if source.parts is None or not source.parts.restart():
        source.parts = PartsByEpoch(iterator, batches, done)
    return source.parts


def _distributed(iterator: Any, batches: Any) -> Any:
    """Global batches of the data of a `TFEpochIterator`, cut for the replicas."""
    strategy = iterator._distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return batches
    source = _source_of(iterator)
    if source.shares is not None:
        return source.shares.of(batches)
    smallest = smallest_batch(iterator.data_adapter)
    return distribute(batches, strategy, smallest, once=source.once, shares_rows=source.shares_rows)


class Parts:
    """The datasets of replicas' batches that an iterator goes through: this one has them all.

    Args:
        dataset: The only one.

    Attributes:
        undrawn: Steps whose batches are not drawn yet from the one that is open.
    """

    def __init__(self, dataset: Any = None) -> None:
        self._dataset = dataset
        self.undrawn = 0.0

    def next(self, shares_rows: bool | None) -> Any:
        """The one of the next steps.

        Args:
            shares_rows: As in `distribute`, as far as it is known by now.
        """
        self.undrawn = float("inf")
        return self._dataset


class PartsByEpoch(Parts):
    """A part for each epoch, so that little is read beyond it.

    Args:
        iterator: A `TFEpochIterator`, which is not kept.
        batches: Its global batches.
        done: How many steps of the first epoch are done.
    """

    def __init__(self, iterator: Any, batches: tf.data.Dataset, done: int) -> None:
        super().__init__()
        at_once = iterator.steps_per_execution
        self._each = -(-iterator.steps_per_epoch // at_once) * at_once
        self._done = done
        self._continued = continued = ContinuedBatches(batches)
        strategy, once = iterator._distribute_strategy, _source_of(iterator).once
        smallest = smallest_batch(iterator.data_adapter)

        @functools.cache
        def of(steps: int, shares_rows: bool | None) -> Any:
            part = functools.partial(continued.part, steps=steps)
            return distribute(batches, strategy, smallest, once=once, shares_rows=shares_rows, part=part)

        self._of = of

    def next(self, shares_rows: bool | None) -> Any:
        steps, self._done = self._each - self._done, 0
        self.undrawn = steps
        return self._of(steps, shares_rows)

    def restart(self) -> bool:
        """Begins anew, if all that was to be read of what is open is; returns whether it does."""
        if self.undrawn == 0:
            self._continued.restart()
        return self.undrawn == 0


@dataclass(frozen=True)
class FetchedBatch:
    """A batch that was fetched outside of a compiled step.

    Attributes:
        values: What TensorFlow's iterator gave.
        spec: The spec of all batches of the iterator. One worker may get as many rows as before and another fewer: if
            each traced by its own batch, their steps and collectives would no longer be the same.
    """

    values: Any
    spec: Any


@dataclass(frozen=True)
class EpochBatches:
    """The batches of which Keras takes an iterator for every epoch.

    Attributes:
        parts: The batches.
        steps: How many there are; infinite without an end, None where that is unknown before the end.
        steps_per_epoch: Steps of an epoch, where one iterator serves all epochs.
        done: Steps of the first epoch that are done.
        plain_keras_overruns: Whether plain Keras would run part of a step after the last batch.
        is_cut: Whether the batches are cut for several replicas. `OneDeviceStrategy` gives TensorFlow's distributed
            iterators, too, of plain batches.
        even: How many batches are known to divide among the replicas: `"all"`, `"all but the last"` or `"none"`.
        source: Whose they are, which learns by a first batch whether the tensors of one have as many rows each.
    """

    parts: Parts
    steps: float | None
    steps_per_epoch: int | None
    done: int
    plain_keras_overruns: bool
    is_cut: bool
    even: Even = "none"
    source: _EpochSource = field(default_factory=lambda: _EpochSource(None))

    def __iter__(self) -> BatchIterator:
        return BatchIterator(self)


class BatchIterator(Iterator[Any]):
    """TensorFlow's iterator and the number of its steps. Under several replicas it gives `FetchedBatch`es.

    Attributes:
        iterator: TensorFlow's, of the part that is open.
        left: Steps until it ends; None where that is unknown before the end.
        calls: Functions compiled for the iterator and bound to its tensors, by the object that compiled them.
        meter: Counts the time that fetching a batch here takes; None: nobody counts it.
        plain_keras_overruns: Whether plain Keras would run part of a step after the last batch.
        is_checked: Whether it is known that a step with its batches is checked, or need not be.

    Args:
        batches: What it iterates over.
    """

    def __init__(self, batches: EpochBatches) -> None:
        self._channel: FeedChannel | None = None
        self.left = batches.steps
        self.calls: dict[object, Function] = {}
        self.meter: StepMeter | None = None
        self.plain_keras_overruns = batches.plain_keras_overruns
        self._steps_per_epoch = batches.steps_per_epoch
        self._taken = batches.done
        self._peeked: list[Any] | None = None
        self.is_checked = False
        self._source = batches.source
        self._even = batches.even
        self._parts = batches.parts
        self._is_cut = batches.is_cut
        self._open()

    def _open(self) -> None:
        """Opens the next part, in which batches have rows as those before it."""
        if self._channel is not None:
            self._channel.close()
        self.calls.clear()
        dataset = self._parts.next(self._source.shares_rows)
        fed = description_of(dataset).fed if self._is_cut else None
        if fed is not None:
            dataset, self._channel = fed.open()
        of_only_replica = description_of(dataset).of_only_replica if self._is_cut else None
        self.iterator = iter(dataset if of_only_replica is None else of_only_replica)
        is_distributed = of_only_replica is not None or isinstance(self.iterator, tf.distribute.DistributedIterator)
        self._is_of_replicas = self._is_cut and is_distributed
        if self._source.shares is not None:
            self.iterator = self._source.shares.joined(self.iterator)

    def draw(self, steps: int) -> None:
        """Tells that a caller draws the batches of so many steps of one epoch next, from `iterator` itself: that is the
        one of the part that they are in."""
        if self._parts.undrawn <= 0:
            self._open()
        self._parts.undrawn -= steps

    def __next__(self) -> Any:
        """Ends as TensorFlow's iterators do inside a compiled step, which is what Keras's loops wait for."""
        batch = self.fetched() if self._is_of_replicas else self._next()
        self.take(1)
        return batch

    def fetched(self) -> FetchedBatch:
        """The next batch of several replicas, for a caller that counts it with `take`; it ends as `__next__` does."""
        is_whole = self.is_whole  # Before the batch is taken: the first one says it.
        return self._fetched(self._next(), is_whole)

    def peeked(self) -> FetchedBatch:
        """The next batch, which stays the next one."""
        return self._fetched(self._peek(), self.is_whole)

    @property
    def has_peeked(self) -> bool:
        """True if the next batch is fetched already: `iterator` gives the one after it."""
        return self._peeked is not None

    @property
    def spec(self) -> Any:
        """That of each batch."""
        spec = self.iterator.element_spec
        return _marked_whole(spec) if self.is_whole else spec

    @property
    def whole_spec(self) -> Any:
        """That of the batches before they are cut for the replicas; None where nobody knows it."""
        return getattr(self._source.whole, "element_spec", None)

    @property
    def is_whole(self) -> bool:
        """True if each replica gets whole batches, as the tensors of the first one have other numbers of rows each.

        Then batches are fetched one by one: what `iterator` gives does not say so.
        """
        if self._source.shares_rows is None:
            self._source.shares_rows = _share_rows(self._peek(), self.iterator.element_spec)
        return not self._source.shares_rows

    def _fetched(self, values: Any, is_whole: bool) -> FetchedBatch:
        return FetchedBatch(_marked_whole(values) if is_whole else values, self.spec)

    def _peek(self) -> Any:
        if self._peeked is None:
            self._peeked = [self._next()]
        return self._peeked[0]

    def _next(self) -> Any:
        if self._peeked is not None:
            (batch,), self._peeked = self._peeked, None
            return batch
        self.draw(1)
        try:
            with contextlib.nullcontext() if self.meter is None else self.meter.fetching():
                return next(self.iterator)
        except StopIteration:
            self.check_end()
            raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None

    def __del__(self) -> None:
        # Before TensorFlow's iterator goes, which waits for a batch that is on its way.
        if self._channel is not None:
            self._channel.close()

    def check_end(self) -> None:
        """Raises what has ended the batches, where that was not their end: an error of the data on the worker that
        draws them, or that worker's own end."""
        failure = None if self._channel is None else self._channel.failure
        if failure is not None:
            raise failure

    def take(self, steps: int) -> int:
        """Counts up to `steps` as taken, for a caller that uses `iterator` itself; returns how many there are."""
        if self.left is not None:
            steps = int(min(steps, self.left))
            self.left -= steps
        self._taken += steps
        return steps

    def even_among(self, taken: int) -> int:
        """Returns how many of the steps that were taken last, but not fetched, are known to be of batches that
        divide."""
        if self._even == "all but the last" and self.left is not None:
            return taken if self.left > 0 else taken - 1
        return taken if self._even == "all" else 0

    @property
    def left_of_epoch(self) -> float:
        """Steps until the epoch ends, which may be before the iterator does; 0 where unknown before the end."""
        if self.left is None:
            return 0
        if self._steps_per_epoch is None:
            return self.left
        return min(self.left, self._steps_per_epoch - self._taken % self._steps_per_epoch)

    @property
    def ends_epoch(self) -> bool:
        """True if the steps that were taken last end an epoch, as far as that is known."""
        return self.left == 0 or (self._steps_per_epoch is not None and self._taken % self._steps_per_epoch == 0)


def _marked_whole(batch: ReplicaBatch) -> ReplicaBatch:
    """A batch, or the spec of one, whose data are whole on every replica: any tensor says so."""
    return batch._replace(whole=batch.samples)


def _share_rows(batch: ReplicaBatch, spec: ReplicaBatch) -> bool:
    """Returns whether all tensors of the samples of a batch have as many rows, by a replica's data, which are whole if
    not."""
    specs = [getattr(leaf, "_value_specs", (leaf,))[0] for leaf in tf.nest.flatten(spec.data)]
    of_samples = are_of_samples([getattr(leaf, "shape", None) for leaf in specs])
    leaves = [leaf for leaf, has in zip(tf.nest.flatten(batch.data), of_samples, strict=True) if has]
    firsts = [leaf.values[0] if isinstance(leaf, tf.distribute.DistributedValues) else leaf for leaf in leaves]
    return len({int(rows(leaf)) for leaf in firsts}) <= 1


def _even(iterator: Any, whole: Any) -> Even:
    """Returns which batches are known to divide among the replicas: by tfdist, Keras's adapter or the shapes of a
    dataset."""
    replicas, adapter = iterator._distribute_strategy.num_replicas_in_sync, iterator.data_adapter
    if isinstance(adapter, ArrayDataAdapter):
        even = even_batches(adapter.batch_size, adapter.partial_batch_size or adapter.batch_size, replicas)
        # An epoch that takes some batches of data without an end has the last one of the arrays in its middle.
        return "none" if even == "all but the last" and iterator.steps_per_epoch is not None else even
    if not isinstance(whole, tf.data.Dataset):
        return description_of(whole).even
    size = _static_size(whole.element_spec)
    return "all" if size is not None and size % replicas == 0 else "none"


def _static_size(spec: Any) -> int | None:
    """The samples of each batch of a spec, where all of its parts say so."""
    shapes = [tf.TensorShape(getattr(leaf, "shape", None)) for leaf in tf.nest.flatten(spec)]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    return sizes.pop() if len(sizes) == 1 else None


def _is_of_tfdist(batches: Any) -> bool:
    """Returns whether tfdist.data has made the data, which plain Keras does not read."""
    return isinstance(batches, tf.distribute.DistributedDataset) or description_of(batches).order is not None


def _steps(adapter: Any, dataset: Any, done: int) -> float | None:
    if adapter.num_batches is not None:
        return adapter.num_batches - done
    cardinality = dataset.cardinality
    known = int(cardinality() if callable(cardinality) else cardinality)
    if known == tf.data.INFINITE_CARDINALITY:
        return float("inf")
    return None if known < 0 else known
