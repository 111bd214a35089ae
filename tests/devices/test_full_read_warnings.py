"""The chief warns once where every worker reads all data and that is expensive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tfdist.keras_repairs.inputs import host_drawing
from tfdist.runtime.batches.host_feed.host_feed import HostFeed
from tfdist.runtime.batches.mapped_rows import sample_maps
from tfdist.runtime.strategy_settings import settings_of

FILES = "reads and parses all files of this tf.data.Dataset"
PYTHON = "runs all of the Python code in this tf.data.Dataset"


def generate() -> Iterator[np.ndarray]:
    yield np.zeros(3, np.float32)


def records() -> tf.data.Dataset:
    return tf.data.TFRecordDataset(["absent"]).map(tf.strings.length).batch(2)


def lines() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(["absent"]).interleave(tf.data.TextLineDataset).batch(2)


def images() -> tf.data.Dataset:
    files = tf.data.Dataset.from_tensor_slices(["absent"])
    return files.map(lambda path: tf.strings.length(tf.io.read_file(path))).batch(2).prefetch(1)


def generator() -> tf.data.Dataset:
    return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([3])).batch(2)


def arrays() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.zeros((4, 2), np.float32)).shuffle(4, seed=1).batch(2)


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((2, 3)), np.zeros(2)


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The warnings of a worker about an adapter and its dataset."""

    def says(adapter: Any, dataset: Any, workers: int = 2, index: int = 0, *, once: bool = False) -> list[str]:
        said: list[str] = []
        monkeypatch.setattr(host_drawing, "warn_once", said.append)
        monkeypatch.setattr(host_drawing, "worker_count", lambda _: workers)
        monkeypatch.setattr(host_drawing, "local_replicas", lambda _: range(index, index + 1))
        host_drawing.warn_of_whole_reading(adapter, dataset, tf.distribute.get_strategy(), once=once)
        return said

    return says


@pytest.mark.parametrize(
    ("make", "what"), [(records, FILES), (lines, FILES), (images, FILES), (generator, PYTHON), (arrays, None)]
)
def test_a_dataset(warned: Callable[..., list[str]], make: Callable[[], tf.data.Dataset], what: str | None) -> None:
    dataset = make()
    adapter = TFDatasetAdapter(dataset)
    said = warned(adapter, dataset)
    assert [what in text and "2 workers" in text and "tfdist.data" in text for text in said] == ([True] if what else [])
    assert warned(adapter, dataset, workers=1) == warned(adapter, dataset, index=1) == []


@pytest.mark.parametrize(("hosts", "said"), [(1, []), (2, ["Each of the hosts reads all files"])])
def test_files_that_one_worker_of_each_host_reads(
    warned: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, hosts: int, said: list[str]
) -> None:
    feed = HostFeed(0, [0, 1], [])
    monkeypatch.setattr(settings_of(tf.distribute.get_strategy()), "feed", feed)
    dataset = records()
    texts = warned(TFDatasetAdapter(dataset), dataset, workers=2 * hosts, once=True)
    assert [text.partition(" of this tf.data")[0] for text in texts] == said


@pytest.mark.parametrize(("make", "said"), [(images, []), (records, ["reads all files"])])
def test_files_that_each_worker_reads_for_its_own_samples(
    warned: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], tf.data.Dataset],
    said: list[str],
) -> None:
    monkeypatch.setattr(host_drawing, "maps_of_rows", lambda dataset, strategy, once: sample_maps(dataset))
    dataset = make()
    texts = warned(TFDatasetAdapter(dataset), dataset)
    assert [text.partition(" of this tf.data")[0].partition("workers ")[2] for text in texts] == said


def test_python_batches(warned: Callable[..., list[str]]) -> None:
    adapter = PyDatasetAdapter(Batches())
    (said,) = warned(adapter, adapter.get_tf_dataset())
    assert "runs all of the Python code that makes the batches" in said


@pytest.mark.parametrize(("limit", "count"), [(64, 0), (63, 1)])
def test_large_arrays(
    warned: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr(host_drawing, "MUCH", limit)
    adapter = ArrayDataAdapter(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32), batch_size=2)
    said = warned(adapter, adapter.get_tf_dataset())
    assert len(said) == count and all("mmap_mode='r'" in text for text in said)
