"""Prepared TensorFlow Datasets: what is read of them, over 1, 2 and 3 replicas, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.devices.test_data_formats import flat
from tfdist.config.data_sections import TfdsSource
from tfdist.data import from_config
from tfdist.data.format_registry import measure, sample_specs
from tfdist.data.sample_source import ArraySpec, SampleSpecs
from tfdist.errors import DataError

tfds = pytest.importorskip("tensorflow_datasets")
pytest.importorskip("importlib_resources")  # which preparing one needs
SAMPLES = 23


def prepare(folder: Path, form: str = "tfrecord") -> None:
    features = {"v": tfds.features.Tensor(shape=(2,), dtype=np.float64), "n": tfds.features.Scalar(np.int64)}
    examples = {n: {"v": np.array([n, -n], np.float64), "n": n} for n in range(SAMPLES)}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="rows",
        version="1.2.0",
        data_dir=folder,
        file_format=form,
        features=tfds.features.FeaturesDict(features),
        split_datasets={"train": list(examples.items()), "test": list(examples.items())[:5]},
        download_config=tfds.download.DownloadConfig(num_shards=3),
        disable_shuffling=True,
    )


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TfdsSource]:
    folder = tmp_path_factory.mktemp("tfds")
    prepare(folder)
    known = {"name": "rows", "split": "train", "label": "n", "data_dir": str(folder)}
    return lambda **keys: TfdsSource(**{**known, **keys})


def doubled(example: Any) -> Any:
    return 2 * example["v"], example["n"]


def test_every_example_once_an_epoch(strategy: tf.distribute.Strategy, section: Callable[..., TfdsSource]) -> None:
    batches, samples, *_ = from_config(section(shuffle=True), 8, seed=3, strategy=strategy)
    orders = [flat(batches, strategy) for _ in range(2)]
    assert samples == SAMPLES and all(sorted(n.tolist()) == list(range(SAMPLES)) for _, n in orders)
    assert orders[0][1].tolist() != orders[1][1].tolist()
    assert all(v.tolist() == [[float(n), -float(n)] for n in numbers] for v, numbers in orders)


@pytest.mark.parametrize(
    ("split", "numbers"),
    [
        ("train[:50%]", range(12)),
        ("train[20:]", range(20, SAMPLES)),
        ("train[3:9]", range(3, 9)),
        ("test+train[20:]", [0, 1, 2, 3, 4, 20, 21, 22]),
    ],
)
def test_parts_of_splits(section: Callable[..., TfdsSource], split: str, numbers: Any) -> None:
    batches, samples, *_ = from_config(section(split=split), 100)
    ((_, n),) = list(batches)
    assert n.numpy().tolist() == list(numbers) and samples == len(n)
    assert measure(section(split=split)).samples == samples


def test_a_function_makes_the_samples(section: Callable[..., TfdsSource]) -> None:
    ((v, _),) = list(from_config(section(label=None, map=f"{__name__}.doubled"), 100)[0])
    assert v[3].numpy().tolist() == [6.0, -6.0]


def test_shapes_and_sizes_are_known_before(section: Callable[..., TfdsSource]) -> None:
    assert sample_specs(section()) == SampleSpecs(ArraySpec("float32", (2,)), ArraySpec("int64"))
    sizes = measure(section())
    assert (len(sizes.files), sizes.sample_bytes, sizes.estimated) == (3, 16, False)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"name": "mnist"}, "The dataset mnist is not prepared in .*workers download and prepare none.*download_and"),
        ({"name": "rows:3.0.0"}, "The dataset rows:3.0.0 is not prepared in"),
        ({"split": "trian"}, r"has no split trian: Unknown split 'trian'. Should be one of \['train', 'test'\]"),
        ({"split": "train[:0]"}, "Expected at least one sample"),
        ({"split": "train[:2]+train[3:5]"}, "has .* twice. Expected each file once"),
        ({"label": "m"}, "has the features .*Received: .*, and m"),
        ({"label": None}, "names no label. Expected label, one of"),
    ],
)
def test_what_is_refused(section: Callable[..., TfdsSource], keys: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_config(section(**keys), 8)


def test_files_that_lack_records_are_named(tmp_path: Path) -> None:
    prepare(tmp_path)
    files = sorted((tmp_path / "rows" / "1.2.0").glob("*train*"))
    files[1].write_bytes(files[0].read_bytes() * 2)
    with pytest.raises(DataError, match=r"train.tfrecord-00001-of-00003 has \d+ records, and its dataset says \d+"):
        from_config(TfdsSource(name="rows", split="train", label="n", data_dir=str(tmp_path)), 8)
