"""Augmentation: each sample is changed alike for any number of replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.config.data_sections import NpzSource
from tfdist.data import from_config
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.pipeline import build
from tfdist.order.epoch_span import Position
from tfdist.runtime.batches.dataset_description import take_partial_epoch


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


def test_augmentation_resumes_inside_an_epoch() -> None:
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
