"""Channels that are really removed: smaller layers, the same outputs, on models of many forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tfdist.training.pruning import channel_removal
from tfdist.training.pruning.channel_removal import SmallerModel, remove_channels
from tfdist.training.pruning.pruning_callback import Pruning

layers = keras.layers
Build = Callable[[], keras.Model]
IMAGE = [8, 8, 3]


def chain() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input([6]),
            layers.LayerNormalization(),
            layers.Dense(10, "relu", name="a"),
            layers.Dropout(0.3),
            layers.Dense(8, "tanh", use_bias=False, name="b"),
            layers.Dense(3, "softmax", name="last"),
        ]
    )


def images() -> keras.Model:
    image = keras.Input(IMAGE)
    x = layers.Conv2D(8, 3, padding="same", use_bias=False, name="a")(image)
    x = layers.BatchNormalization(name="norm_a")(x)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(6, 3, activation="gelu", name="b")(x)
    x = layers.SpatialDropout2D(0.1)(x)
    x = layers.Flatten()(x)
    x = layers.BatchNormalization(center=False, name="norm_b")(x)
    x = layers.Dense(7, name="c")(x)
    return keras.Model(image, layers.Dense(3, name="last")(layers.Activation("silu")(x)))


def series() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input([12, 4]),
            layers.Conv1D(9, 3, dilation_rate=2, padding="causal", name="a"),
            layers.LeakyReLU(),
            layers.Conv1D(6, 3, activation="relu", name="b"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, name="last"),
        ]
    )


def branches() -> keras.Model:
    x = keras.Input([5], name="x")
    shared = layers.Dense(12, "relu", name="a")(x)
    left = layers.Dense(3, name="left")(shared)
    right = layers.Dense(6, "relu", name="b")(layers.BatchNormalization()(shared))
    return keras.Model({"x": x}, {"left": left, "right": layers.Dense(1, name="right")(right)})


def nested() -> keras.Model:
    inner_image = keras.Input(IMAGE)
    y = layers.Conv2D(6, 3, activation="relu", name="a")(inner_image)
    inner = keras.Model(inner_image, layers.Conv2D(4, 3, name="end")(y), name="inner")
    image = keras.Input(IMAGE)
    y = layers.GlobalMaxPooling2D()(inner(image))
    tail = keras.Sequential([keras.Input([4]), layers.Dense(8, "relu", name="b"), layers.Dense(2, name="last")])
    return keras.Model(image, tail(y))


def residual() -> keras.Model:
    """A block that is as wide as its input: inside of it channels go, those that are added stay."""
    image = keras.Input(IMAGE)
    x = layers.Conv2D(6, 1, name="stem")(image)
    y = layers.Conv2D(8, 3, padding="same", name="a")(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(6, 3, padding="same", name="added")(y)
    y = layers.DepthwiseConv2D(3, name="depthwise")(layers.Conv2D(5, 1, name="wide")(x + y))
    return keras.Model(image, layers.Dense(3, name="last")(layers.GlobalAveragePooling2D()(y)))


def words() -> keras.Model:
    """With what Keras keeps elsewhere than in weights."""
    vectorize = layers.TextVectorization(20, output_sequence_length=5, name="vectorize")
    vectorize.adapt(["the model reads these words", "and others too"])
    text = keras.Input([], dtype="string")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(20, 6)(vectorize(text)))
    x = layers.Dense(9, "relu", name="a")(x)
    return keras.Model(text, layers.Dense(2, name="last")(x))


def data_of(model: keras.Model) -> tuple[Any, Any]:
    random = np.random.default_rng(2)
    inputs = model.inputs[0]
    if inputs.dtype == "string":
        x: Any = np.array(["the words", "others", "unknown model reads", "these"] * 5)
    else:
        x = random.normal(size=(20, *inputs.shape[1:])).astype("float32")
    targets = [random.normal(size=(20, *each.shape[1:])).astype("float32") for each in model.outputs]
    if len(targets) > 1:
        return {"x": x}, dict(zip(model.output, targets, strict=True))
    return x, targets[0]


def pruned(build: Build, **arguments: Any) -> tuple[keras.Model, Any]:
    """A model that was trained while channels were pruned, and samples for it."""
    keras.utils.set_random_seed(4)
    model = build()
    for variable in model.weights:
        if variable.dtype == "float32":
            variable.assign(variable + np.random.default_rng(len(variable.path)).uniform(0.1, 0.3, variable.shape))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = data_of(model)
    pruning = Pruning(0.5, "channels", schedule="constant", **arguments)
    if isinstance(x, np.ndarray) and x.dtype.kind == "U":
        x = tf.constant(x)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[pruning])
    return model, x


def assert_same_outputs(small: keras.Model, model: keras.Model, x: Any) -> None:
    expected, found = model.predict(x, verbose=0), small.predict(x, verbose=0)
    for mine, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        assert np.ptp(other) > 0
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)


ALL = [
    (chain, {"a": 5, "b": 4}),
    (images, {"a": 4, "b": 3, "c": 4}),
    (series, {"a": 5, "b": 3}),
    (branches, {"a": 6, "b": 3}),
    (nested, {"a": 3, "b": 4}),
    (residual, {"a": 4}),
    (words, {"a": 5}),
]
WITHIN_OTHERS = (chain, series, branches, nested, words)


@pytest.mark.parametrize(
    ("build", "removed"),
    [slow(*each) if each[0] in WITHIN_OTHERS else each for each in ALL],
    ids=[build.__name__ for build, _ in ALL],
)
def test_smaller_layers_and_the_same_outputs(build: Build, removed: dict[str, int], tmp_path: Path) -> None:
    model, x = pruned(build)
    result = remove_channels(model)
    assert result.removed == removed and result.kept == {}
    assert result.model.count_params() < model.count_params()
    assert _names(result.model) == _names(model)
    assert_same_outputs(result.model, model, x)
    assert not _zero_channels(result.model, removed)
    result.model.save(tmp_path / "small.keras")
    loaded = keras.models.load_model(tmp_path / "small.keras")
    assert loaded.count_params() == result.model.count_params()
    assert_same_outputs(loaded, model, x)


def _names(model: keras.Model) -> list[str]:
    return [layer.name for layer in model.layers if not isinstance(layer, layers.InputLayer)]


def _zero_channels(model: keras.Model, names: dict[str, int]) -> list[str]:
    """Layers that still have a channel of zeros."""
    found = [layer for layer in model._flatten_layers(include_self=False) if layer.name in names]
    assert len(found) == len(names)
    kernels = {layer.name: layer.kernel.numpy() for layer in found}
    return [name for name, kernel in kernels.items() if not kernel.reshape(-1, kernel.shape[-1]).any(axis=0).all()]


def _result(build: Build, **arguments: Any) -> SmallerModel:
    model, x = pruned(build, **arguments)
    result = remove_channels(model)
    assert_same_outputs(result.model, model, x)
    return result


def test_channels_that_something_needs_stay_and_are_named() -> None:
    result = _result(residual, layers=["stem", "a", "added", "wide", "last"])
    assert result.removed == {"a": 4}
    assert result.kept["stem"].startswith("is read by the operation add")
    assert result.kept["added"].startswith("is read by the operation add")
    assert result.kept["wide"].startswith("is read by depthwise (DepthwiseConv2D)")
    assert result.kept["last"].startswith("is at the end")


@keras.saving.register_keras_serializable()
class Doubled(layers.Dense):
    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return 2 * super().call(inputs, training=training)


def test_classes_of_a_users_own_stay() -> None:
    def own() -> keras.Model:
        return keras.Sequential([keras.Input([6]), layers.Dense(8, name="a"), Doubled(4, name="b"), layers.Dense(2)])

    result = _result(own)
    assert result.removed == {} and result.kept["a"].startswith("has channels that b takes, of a class of its own")

    class Wrapped(keras.Model):
        def __init__(self, inner: keras.Model) -> None:
            super().__init__()
            self.inner = inner

        def call(self, x: Any) -> Any:
            return self.inner(x)

    inner, x = pruned(chain)
    model = Wrapped(inner)
    model(x)
    result = remove_channels(model)
    assert result.model is model and {*result.kept} == {"a", "b"}
    assert "a model with a call of its own" in result.kept["a"]


def test_what_is_a_constant_behind_a_norm_stays() -> None:
    model, x = pruned(branches)
    norm = next(layer for layer in model.layers if isinstance(layer, layers.BatchNormalization))
    norm.beta.assign(np.where(np.arange(12) == np.flatnonzero(norm.gamma.numpy() == 0)[0], 1.0, norm.beta.numpy()))
    result = remove_channels(model)
    assert result.removed["a"] == 5
    assert_same_outputs(result.model, model, x)


def test_one_channel_stays_of_each() -> None:
    model, x = pruned(chain)
    model.get_layer("b").kernel.assign(np.zeros([10, 8]))
    result = remove_channels(model)
    assert result.removed == {"a": 5, "b": 7}
    np.testing.assert_allclose(result.model.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)


def test_a_place_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the order in which Flatten lays channels out, the outputs differ: the test above can fail."""
    model, x = pruned(images)
    monkeypatch.setattr(channel_removal, "_places", lambda left, repeats: np.flatnonzero(np.repeat(left, repeats)))
    with pytest.raises(AssertionError):
        assert_same_outputs(remove_channels(model).model, model, x)
