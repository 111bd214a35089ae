"""What happens to each sample on its way: augmentation, and a look at what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.config.data_sections import CsvSource, NpzSource
from tfdist.data import from_config
from tfdist.data.data_errors import data_error_in
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.pipeline import build
from tfdist.errors import DataError, UsageError
from tfdist.order.position import Position
from tfdist.runtime.dataset_description import take_partial_epoch


def noisy(sample: tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds noise, and shows a part of the seed."""
    x, y = sample
    return x + tf.random.stateless_normal(tf.shape(x), seed), tf.stack([y, tf.cast(seed[0], tf.int64)])


def read(batches: Any, strategy: tf.distribute.Strategy) -> np.ndarray:
    """The samples of an epoch in order, `x` and `y` side by side."""
    pieces = [
        np.concatenate([part.numpy().reshape(len(part), int(np.prod(part.shape[1:]))) for part in parts], axis=1)
        for x, y in batches
        for parts in zip(*map(strategy.experimental_local_results, (x, y)), strict=True)
    ]
    return np.concatenate(pieces)


def source(samples: int) -> ArraySamples:
    return ArraySamples(np.zeros((samples, 2)), np.arange(samples))


@pytest.mark.parametrize(("samples", "batch_size"), [(10, 4), (1, 4), (9, 9)])
def test_augmentation_is_the_same_for_any_number_of_replicas(
    strategy: tf.distribute.Strategy, samples: int, batch_size: int
) -> None:
    one = tf.distribute.get_strategy()
    options = {"batch_size": batch_size, "shuffle": True, "seed": 3, "augment": noisy}
    here, there = (build(source(samples), strategy=chosen, **options) for chosen in (strategy, one))
    for _ in range(2):
        np.testing.assert_array_equal(read(here, strategy), read(there, one))


def test_each_epoch_and_sample_has_a_seed_of_its_own_whatever_the_batch_and_order() -> None:
    one = tf.distribute.get_strategy()
    some = build(source(10), batch_size=4, shuffle=True, seed=3, augment=noisy)
    epochs = [read(some, one) for _ in range(2)]
    assert len({row[3] for row in np.concatenate(epochs)}) == 20
    in_order = read(build(source(10), batch_size=3, seed=3, augment=noisy), one)
    np.testing.assert_array_equal(epochs[0][np.argsort(epochs[0][:, 2])], in_order)


def test_augmentation_goes_on_inside_an_epoch() -> None:
    one = tf.distribute.get_strategy()
    options = {"batch_size": 4, "shuffle": True, "seed": 3, "augment": noisy}
    whole = build(source(10), begin=Position(2), **options)
    rest = take_partial_epoch(build(source(10), begin=Position(2, 1), **options))
    assert rest is not None
    np.testing.assert_array_equal(read(rest.batches(), one), read(whole, one)[4:])


def test_augmentation_may_change_shapes_and_strings_stay(strategy: tf.distribute.Strategy) -> None:
    x = {"image": np.zeros((5, 4, 4, 3)), "word": np.array(list("abcde"))}

    def crop(sample: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**sample, "image": tf.image.stateless_random_crop(sample["image"], [2, 2, 3], seed)}

    batches = tfdist.data.arrays(x, batch_size=4, augment=crop, strategy=strategy)
    pieces = [piece for batch in batches for piece in strategy.experimental_local_results(batch["image"])]
    assert {tuple(piece.shape[1:]) for piece in pieces} == {(2, 2, 3)}
    words = [word for batch in batches for part in strategy.experimental_local_results(batch["word"]) for word in part]
    assert b"".join(word.numpy() for word in words) == b"abcde"



def test_a_config_names_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.ones((2, 3)), y_train=np.arange(2))
    (tmp_path / "my_augmentation.py").write_text("def flip(sample, seed):\n    return -sample[0], sample[1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    section = NpzSource(path=str(tmp_path / "a.npz"), split="train", augment="my_augmentation.flip")
    ((x, _),) = list(from_config(section, batch_size=2)[0])
    assert x.numpy().tolist() == [[-1.0] * 3] * 2


# Samples that are wrong are named.


def failure(batches: Any) -> str:
    with pytest.raises(tf.errors.OpError) as raised:
        list(batches)
    found = data_error_in(raised.value)
    assert isinstance(found, DataError), raised.value
    return str(found)


def test_a_nan_is_named(strategy: tf.distribute.Strategy) -> None:
    x = np.zeros((10, 2, 2))
    x[7, 1, 0] = np.nan
    expected = "the arrays, sample 7: there is a NaN in the sample. Expected numbers, as on_nan: stop says."
    options = {"batch_size": 4, "shuffle": True, "strategy": strategy}
    assert failure(tfdist.data.arrays(x, np.zeros(10), on_nan="stop", **options)) == expected
    assert len(list(tfdist.data.arrays(x, np.zeros(10), **options))) == 3
    assert "sample 7" in failure(tfdist.data.arrays(np.zeros(10), x, on_nan="stop", **options))


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_named(strategy: tf.distribute.Strategy, label: int) -> None:
    y = np.arange(10) % 3
    y[5] = label
    message = failure(tfdist.data.arrays(np.zeros(10), y, batch_size=4, classes=3, strategy=strategy))
    assert message == f"the arrays, sample 5: the label is {label}. Expected an integer from 0 to 2, as classes says."


@pytest.mark.parametrize("label", ["1.7", "-0.5", "nan", "inf"])
def test_a_label_that_is_no_integer_is_named(tmp_path: Path, label: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"a,y\n1,0\n2,1.0\n3,{label}\n")
    message = failure(tfdist.data.csv(path, "y", batch_size=2, classes=3))
    said = str(float(np.float32(label)))
    assert message == f"{path}, line 4: the label is {said}. Expected an integer from 0 to 2, as classes says."


@pytest.mark.parametrize(
    ("y", "received"), [(np.eye(3), r"labels of the shape \(3,\) each"), (np.array(list("abc")), "strings")]
)
def test_labels_that_are_no_single_numbers(y: np.ndarray, received: str) -> None:
    with pytest.raises(UsageError, match=f"classes: expected .* Received: {received}"):
        tfdist.data.arrays(np.zeros(3), y, batch_size=1, classes=3)


def test_a_config_asks_for_the_look(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\nnan,1\n")
    section = CsvSource(files=str(path), label="y", on_nan="stop")
    assert failure(from_config(section, batch_size=2)[0]).startswith(f"{path}, line 3: there is a NaN")
    section = CsvSource(files=str(path), label="y", classes=1)
    assert failure(from_config(section, batch_size=2)[0]).startswith(f"{path}, line 3: the label is 1")


@pytest.mark.parametrize(("option", "value"), [("on_nan", "skip"), ("classes", 0), ("classes", "10"), ("classes", 2.0)])
def test_impossible_expectations(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{option}: expected"):
        build(source(1), batch_size=1, **{option: value})


def test_classes_without_labels() -> None:
    with pytest.raises(UsageError, match=r"classes: expected samples \(x, y\)"):
        tfdist.data.arrays(np.zeros(3), batch_size=1, classes=2)


def test_corrupt_records_are_skipped_with_the_same_steps(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(9):
            writer.write(str(number).encode())
    data = bytearray(path.read_bytes())
    data[2 * 17 + 12] ^= 1
    path.write_bytes(data)

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.zeros([1]), tf.strings.to_number(record, tf.int32)

    batches = tfdist.data.tfrecords(str(path), parse, batch_size=4, strategy=strategy, on_corrupt="skip")
    assert read(batches, strategy)[:, 1].tolist() == [0, 1, 3, 4, 5, 6, 7, 8]
    assert len(list(batches)) == 2
    with pytest.raises(UsageError, match="on_corrupt: expected stop or skip. Received: 'ignore'"):
        tfdist.data.tfrecords(str(path), parse, batch_size=4, on_corrupt="ignore")
