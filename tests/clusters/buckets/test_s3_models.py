"""Models and weights that Keras saves and loads under s3://."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tests.clusters.buckets.stores import RunningStore
from tfdist import keras_repairs
from tfdist.errors import UsageError


@pytest.fixture
def model() -> keras.Model:
    keras_repairs.install()
    found = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    found.compile("sgd", keras.losses.MeanSquaredError())
    return found


def same(first: keras.Model, second: keras.Model) -> bool:
    pairs = zip(first.get_weights(), second.get_weights(), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_a_model_is_saved_and_loaded(ending: str, model: keras.Model, url: str) -> None:
    model.save(f"{url}/model{ending}")
    assert same(keras.models.load_model(f"{url}/model{ending}"), model)
    assert same(keras.models.load_model(filepath=f"{url}/model{ending}"), model)


def test_weights_are_saved_and_loaded(model: keras.Model, url: str) -> None:
    model.save_weights(f"{url}/a.weights.h5")
    other = keras.models.clone_model(model)
    assert not same(other, model)
    other.load_weights(f"{url}/a.weights.h5")
    assert same(other, model)


def test_an_export_is_a_folder(model: keras.Model, url: str, moto: RunningStore) -> None:
    model.export(f"{url}/served", verbose=False)
    names = moto.names(url.split("/")[2])
    assert "run/served/saved_model.pb" in names and "run/served/variables/variables.index" in names


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda model: model.save("s3://no-such-bucket-here/a.keras"), "a.keras could not be saved: .*no such bucket"),
        (lambda model: model.save("hdfs://name/a.keras"), "hdfs://name/a.keras is on a file system that tfdist does"),
        (lambda model: model.load_weights("abfs://c/a.weights.h5"), "abfs://c/a.weights.h5 is on a file system"),
        (lambda model: model.load_weights("s3://a/a.weights.json"), "names the files of weights that were saved in"),
    ],
)
def test_what_cannot_be_is_told(act: Any, said: str, model: keras.Model, url: str) -> None:
    with pytest.raises(UsageError, match=said):
        act(model)


def test_a_model_that_is_not_there(model: keras.Model, url: str) -> None:
    with pytest.raises(UsageError, match="none.keras cannot be loaded: there is no such object"):
        keras.models.load_model(f"{url}/none.keras")
