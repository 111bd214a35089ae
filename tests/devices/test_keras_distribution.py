"""`keras.distribution` on the devices of one worker: data parallelism over all of them is what tfdist does anyway.

`ModelParallel` leaves weights whole there, and shards them between workers: `tests/workers/test_model_parallel.py`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import classifier, numbers
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import point_out_once, say_once
from tfdist.keras_repairs.model_checks import refusals
from tfdist.keras_repairs.model_checks.described_layouts import findings_of
from tfdist.keras_repairs.sharded_parameters import model_parallel as model_parallel_module
from tfdist.keras_repairs.sharded_parameters.tensor_layouts import TensorParallel
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding import Mesh, Sharding

pytestmark = pytest.mark.usefixtures("repaired")

DeviceMesh, DataParallel = keras.distribution.DeviceMesh, keras.distribution.DataParallel


@pytest.fixture(autouse=True)
def no_distribution_is_left() -> Iterator[None]:
    yield
    keras.distribution.set_distribution(None)


def fit_under(
    distribution: keras.distribution.Distribution,
    data: Callable[..., Sequence[Any]] = lambda *arrays: arrays,
    *,
    method: str = "fit",
) -> None:
    x, y = numbers(8)
    with mirrored(2).scope(), distribution.scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy")
        getattr(model, method)(*data(x.astype("float32"), y))


def in_dataset(*arrays: np.ndarray) -> list[tf.data.Dataset]:
    return [tf.data.Dataset.from_tensor_slices(arrays).batch(8)]


ALL: dict[str, Callable[[], keras.distribution.Distribution]] = {
    "no mesh": lambda: DataParallel(),
    "devices": lambda: DataParallel(devices=["cpu:0", "cpu:1"]),
    "capitals": lambda: DataParallel(devices=["CPU:0", "CPU:1"]),
    "mesh": lambda: DataParallel(DeviceMesh((2,), ["batch"], ["cpu:0", "cpu:1"])),
    "one of them": lambda: DataParallel(devices=["cpu:0"]),
}


@pytest.mark.parametrize("name", ALL)
def test_data_parallel_over_all_devices(name: str, log: pytest.LogCaptureFixture) -> None:
    fit_under(ALL[name]())
    fit_under(ALL[name]())
    said = [record.getMessage() for record in log.records if "DataParallel" in record.getMessage()]
    assert len(set(said)) == 1 and "2 replicas" in said[0]
    assert ("It does not name cpu:1, which train" in said[0]) == (name == "one of them")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the run says, for information too."""
    say_once.cache_clear()
    point_out_once.cache_clear()
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, "tfdist"):
            yield caplog
    finally:
        logger.removeHandler(caplog.handler)


def test_patterns_that_match_no_weight_are_named(log: pytest.LogCaptureFixture) -> None:
    distribution = model_parallel()
    distribution._layout_map["convolution/kernel"] = (None, "model")
    distribution._layout_map[".*/output"] = (None, "model")
    fit_under(distribution)
    (said,) = {record.getMessage() for record in log.records if "layout map" in record.getMessage()}
    assert "'convolution/kernel' of the layout map matches no weight and no output of" in said


def model_parallel() -> keras.distribution.Distribution:
    mesh = DeviceMesh((1, 2), ["batch", "model"], ["cpu:0", "cpu:1"])
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[".*kernel"] = (None, "model")
    return keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")


class OwnDistribution(keras.distribution.DataParallel):
    """What a script may derive."""


def test_a_distribution_of_its_own_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="OwnDistribution, a distribution of its own"):
        fit_under(OwnDistribution())


def test_a_batch_that_may_be_a_share_of_the_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fit_under(DataParallel(auto_shard_dataset=False), in_dataset)
    fit_under(DataParallel(auto_shard_dataset=False), method="train_on_batch")
    monkeypatch.setattr(refusals, "worker_count", lambda strategy: 2)
    fit_under(DataParallel(auto_shard_dataset=False))  # Workers compare arrays.
    with pytest.raises(UnsupportedError, match="DataParallel has auto_shard_dataset=False, and a batch is given"):
        fit_under(DataParallel(auto_shard_dataset=False), method="train_on_batch")


MESHES = [((2, 1), ("batch", "model")), ((1, 3), ("batch", "model"))]


@pytest.mark.parametrize(("shape", "kernel"), MESHES, ids=str)
def test_logical_devices_have_weights_in_full(shape: tuple[int, int], kernel: tuple[str | None, ...]) -> None:
    devices = [f"cpu:{device}" for device in range(shape[0] * shape[1])]
    distribution = laid_out(mesh_of(shape, BATCH_AND_MODEL, devices), kernel)
    alone, together = fitted(1), fitted(len(devices), distribution)
    for expected, found in zip(alone, together, strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def fitted(devices: int, distribution: keras.distribution.Distribution | None = None) -> list[np.ndarray]:
    """The weights after training on so many devices, and what the model makes of its data then."""
    keras.utils.set_random_seed(1)
    keras.distribution.set_distribution(distribution)
    x, y = numbers(13)
    with mirrored(devices).scope() if devices > 1 else contextlib.nullcontext():
        model = classifier()
        model.compile("adam", "sparse_categorical_crossentropy")
        model.fit(x.astype("float32"), y, batch_size=5, epochs=2, verbose=0)
        return [*model.get_weights(), model.predict(x.astype("float32"), verbose=0)]


@pytest.mark.parametrize("make", [OwnDistribution, model_parallel], ids=["own", "weights"])
def test_left_alone_on_one_replica(make: Callable[[], keras.distribution.Distribution]) -> None:
    x, y = numbers(8)
    with make().scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy")
        history = model.fit(x.astype("float32"), y, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def mesh_of(shape: tuple[int, ...], names: list[str], devices: list[str] | None = None) -> keras.distribution.LayoutMap:
    return keras.distribution.LayoutMap(DeviceMesh(shape, names, devices or ["cpu:0", "cpu:1"]))


def laid_out(
    layouts: keras.distribution.LayoutMap, kernel: tuple[str | None, ...] = (None, "model"), **given: Any
) -> keras.distribution.Distribution:
    layouts[".*kernel"] = kernel
    return keras.distribution.ModelParallel(layout_map=layouts, **given)


BATCH_AND_MODEL = ["batch", "model"]
NOT_OF_THE_WORKERS: dict[str, tuple[Callable[[], keras.distribution.Distribution], str]] = {
    "order": (lambda: laid_out(mesh_of((1, 2), BATCH_AND_MODEL, ["cpu:1", "cpu:0"])), "in the order of.*'cpu:0'"),
    "model first": (lambda: laid_out(mesh_of((2, 1), ["model", "batch"]), batch_dim_name="batch"), "in this order"),
    "three axes": (lambda: laid_out(mesh_of((1, 1, 2), ["batch", "x", "model"])), "one axis, or the axis of the batch"),
    "more axes": (lambda: laid_out(mesh_of((1, 2), BATCH_AND_MODEL), (None, None, "model")), "has 3 axes.*\\(6, 8\\)"),
    "twice": (lambda: laid_out(mesh_of((1, 2), BATCH_AND_MODEL), ("model", "model")), "'model' more than once"),
}


@pytest.mark.parametrize("name", NOT_OF_THE_WORKERS)
def test_what_workers_cannot_have_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_parallel_module, "worker_count", lambda strategy: strategy.num_replicas_in_sync)
    monkeypatch.setattr(settings_of(mirrored(2)), "shard", None)
    make, said = NOT_OF_THE_WORKERS[name]
    with pytest.raises(UnsupportedError, match=said):
        fit_under(make())
    with keras.StatelessScope():
        pass  # At the end of one Keras makes the weights that wait for it, of which none is left.


def test_several_gpus_of_one_worker_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_parallel_module, "_is_of_logical_devices", lambda strategy: False)
    with pytest.raises(UnsupportedError, match="ModelParallel shards weights between workers.*--nproc 2"):
        fit_under(model_parallel())


def test_two_meshes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_parallel_module, "worker_count", lambda strategy: strategy.num_replicas_in_sync)
    earlier = Mesh.of(data=2, shard=2)
    monkeypatch.setattr(settings_of(mirrored(2)), "shard", Sharding("zero2", Mesh.of(shard=4), earlier))
    with pytest.raises(UnsupportedError, match="another mesh.*Received: shard 2, and before it data 2 x shard 2"):
        fit_under(model_parallel())


def test_layouts_of_a_script_beside_those_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(tf.distribute.get_strategy())
    monkeypatch.setattr(settings, "tensor", 2)
    monkeypatch.setattr(settings, "model_parallel", TensorParallel(["cpu:0", "cpu:1"], 2))
    layer = keras.layers.Dense(256)
    layer.build((None, 128))
    assert [weight._layout.axes for weight in layer.weights] == [(None, "model"), ("model",)]
    keras.utils.clear_session()
    layout = keras.distribution.LayoutMap(DeviceMesh((1, 2), ["batch", "model"], ["cpu:0", "cpu:1"]))
    with (
        keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch").scope(),
        pytest.raises(UnsupportedError, match="--tensor makes another. .* Received: --tensor 2 .* Leave --tensor out"),
    ):
        keras.layers.Dense(3).build((None, 2))


def test_what_of_a_layout_map_is_of_no_use() -> None:
    layout = keras.distribution.LayoutMap(DeviceMesh((1, 2), ["batch", "model"], ["cpu:0", "cpu:1"]))
    layout[".*first/kernel"] = (None, "model")
    layout[".*first/output"] = (None, "model")
    layout[".*fist/bias"] = ("model",)
    layout[".*last/kernel"] = (None, "model")
    with keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch").scope():
        inputs = keras.Input((3,))
        hidden = keras.layers.Dense(4, name="first")(inputs)
        unmatched, short = findings_of(keras.Model(inputs, keras.layers.Dense(1, name="last")(hidden)))
    assert "'.*fist/bias' of the layout map matches no weight and no output of 'functional" in unmatched
    assert "an axis of 1 element for 2 workers" in short and "last/kernel" in short


def test_weights_that_are_frozen_after_they_were_cut_are_of_use_to_a_layout_map() -> None:
    layout = keras.distribution.LayoutMap(DeviceMesh((1, 2), ["batch", "model"], ["cpu:0", "cpu:1"]))
    layout[".*first/kernel"] = (None, "model")
    layout[".*norm/moving_mean"] = ("model",)
    with keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch").scope():
        inputs = keras.Input((3,))
        first = keras.layers.Dense(4, name="first")
        model = keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(first(inputs)))
        first.enable_lora(2)
        (finding,) = findings_of(model)
    assert not first._kernel.trainable
    assert "'.*norm/moving_mean' of the layout map matches weights that are not trained" in finding
