"""A worker's only replica is fed from its dataset, without what TensorFlow puts before several devices."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pytest
import tensorflow as tf

from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, EpochBatches, FetchedBatch, Parts
from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.batches.replica_batches import per_replica


def batches_for(devices: Sequence[str]) -> tf.distribute.DistributedDataset:
    """Three steps, of two, two and one row, the same on each replica."""

    def make(replica_ids: Sequence[int]) -> tf.data.Dataset:
        batches = tf.data.Dataset.range(5).batch(2)
        return batches.flat_map(lambda batch: tf.data.Dataset.from_tensors(batch).repeat(len(replica_ids)))

    return per_replica(make, tf.distribute.MirroredStrategy(devices))


def iterator_over(distributed: tf.distribute.DistributedDataset) -> BatchIterator:
    return iter(EpochBatches(Parts(distributed), 3, None, 0, plain_keras_overruns=False, is_cut=True))


@pytest.mark.parametrize(
    ("devices", "kind"),
    [(["CPU:0"], tf.data.Iterator), (["CPU:0", "CPU:1"], tf.distribute.DistributedIterator)],
)
def test_what_feeds_the_replicas(devices: list[str], kind: type) -> None:
    iterator = iterator_over(batches_for(devices))
    assert isinstance(iterator.iterator, kind)
    assert all(isinstance(next(iterator), FetchedBatch) for _ in range(3))
    with pytest.raises(tf.errors.OutOfRangeError):
        next(iterator)


def test_it_gets_what_tensorflow_would_hand_on_in_every_epoch() -> None:
    distributed = batches_for(["CPU:0"])
    handed_on = [batch.numpy().tolist() for batch in distributed]
    for _ in range(2):
        iterator = iterator_over(distributed)
        fetched = [next(iterator) for _ in handed_on]
        assert [batch.values.numpy().tolist() for batch in fetched] == handed_on == [[0, 1], [2, 3], [4]]
        assert {batch.spec for batch in fetched} == {distributed.element_spec}


def test_the_dataset_goes_with_the_distributed_one() -> None:
    distributed = batches_for(["CPU:0"])
    dataset = weakref.ref(description_of(distributed).of_only_replica)
    assert dataset() is not None
    del distributed
    gc.collect()
    assert dataset() is None
