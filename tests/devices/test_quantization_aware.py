"""Training for int8: what is trained is what Keras quantizes, and any number of replicas trains as one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.helpers.attentive_model import CLASSES, LENGTH, WORDS, attentive_model
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UsageError
from tfdist.keras_repairs.model_checks.model_facts import layers_of
from tfdist.training import quantization_aware_callback
from tfdist.training.config_objects.objects import make_callbacks
from tfdist.training.config_objects.problems import Problems
from tfdist.training.quantization_aware_callback import FakeQuantization, QuantizationAware, rounded

SAMPLES = 45


def network(*, with_images: bool = True) -> keras.Model:
    keras.utils.set_random_seed(3)
    first = [keras.layers.Conv2D(4, 3, strides=2, use_bias=False, name="conv"), keras.layers.BatchNormalization()]
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            *(first if with_images else []),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            keras.layers.Dense(12, "tanh", name="hidden"),
            keras.layers.Dropout(0.0, name="nothing"),
            keras.layers.Dense(3, name="last"),
        ]
    )


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    x = random.normal(size=(SAMPLES, 8, 8, 1))
    return x, np.argmax(x.reshape(SAMPLES, -1)[:, :3], axis=-1)


def train(strategy: tf.distribute.Strategy, *callbacks: Any, epochs: int = 3, **options: Any) -> keras.Model:
    x, y = data()
    with strategy.scope():
        model = network(**options)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=14, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))
    return model


@contextlib.contextmanager
def in_float64() -> Any:
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before)
        keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_the_weights_are_those_of_one_replica(replicas: int) -> None:
    with in_float64():
        expected = train(tf.distribute.get_strategy(), QuantizationAware())
        model = train(mirrored(replicas), QuantizationAware())
        plain = train(tf.distribute.get_strategy())
    for mine, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
    assert max(np.abs(a - b).max() for a, b in zip(plain.get_weights(), expected.get_weights(), strict=True)) > 1e-4


TEXTS = np.random.default_rng(2).integers(0, WORDS, (SAMPLES, LENGTH)).astype("int32")


def train_words(strategy: tf.distribute.Strategy, *callbacks: Any, epochs: int = 3) -> tuple[keras.Model, Any]:
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = attentive_model()
        # Adam would make steps of gradients that are 0 but for rounding, as those of the bias of an attention's keys.
        model.compile(keras.optimizers.SGD(0.2), "sparse_categorical_crossentropy")
    y = TEXTS[:, 0] % CLASSES
    options = {"batch_size": 14, "shuffle": False, "verbose": 0, "validation_data": (TEXTS, y)}
    return model, model.fit(TEXTS, y, epochs=epochs, callbacks=list(callbacks), **options).history


@pytest.mark.usefixtures("repaired")
@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 3])
def test_attention_and_embeddings_are_those_of_one_replica(replicas: int) -> None:
    with in_float64():
        expected, _ = train_words(tf.distribute.get_strategy(), QuantizationAware())
        model, _ = train_words(mirrored(replicas), QuantizationAware())
        plain, _ = train_words(tf.distribute.get_strategy())
    for mine, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
    assert max(np.abs(a - b).max() for a, b in zip(plain.get_weights(), expected.get_weights(), strict=True)) > 1e-4


def test_a_transformer_is_trained_as_keras_quantizes_it() -> None:
    """Losses of the validation are those of the model whose attention and embeddings Keras has quantized."""
    model, history = train_words(tf.distribute.get_strategy(), QuantizationAware(), epochs=2)
    y = TEXTS[:, 0] % CLASSES
    in_float = model.evaluate(TEXTS, y, verbose=0)
    model.quantize("int8")
    in_integers = model.evaluate(TEXTS, y, verbose=0)
    assert history["val_loss"][-1] == pytest.approx(in_integers, rel=1e-5)
    assert abs(in_float - in_integers) > 1e-4 * in_integers


def test_a_table_has_a_gradient_in_the_rows_that_were_looked_up() -> None:
    table = keras.layers.Embedding(5, 3)
    table.build()
    rounding = FakeQuantization(table)
    with tf.GradientTape() as tape:
        outputs = table(tf.constant([1, 3]))
    assert isinstance(tape.gradient(outputs, table.embeddings.value), tf.IndexedSlices)
    expected = rounded(table.embeddings, -1).numpy()[[1, 3]]
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    rounding.end()
    np.testing.assert_array_equal(table(tf.constant([1])), table.embeddings.numpy()[[1]])


@pytest.mark.parametrize(
    ("equation", "inputs", "outputs", "scales"),
    [
        ("abc,cde->abde", [2, 3, 4], (None, 2, 5), [2, 3, 1]),  # query, key and value of an attention
        ("abde,dec->abc", [2, 3, 4, 5], (None, 6), [2, 3, 1, 1]),  # its output
        ("...x,xy->...y", [2, 3, 4], (5,), [2, 3, 1]),
    ],
)
def test_inputs_of_an_einsum_have_a_scale_for_what_is_summed(
    equation: str, inputs: list[int], outputs: Any, scales: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Keras rounds them once it has quantized the layer, whose outputs are then the same."""
    x = np.random.default_rng(0).normal(size=inputs).astype("float32")
    layer = keras.layers.EinsumDense(equation, outputs)
    layer.build(x.shape)
    seen: list[list[int]] = []

    def watched(values: Any, axis: Any) -> Any:
        seen.append(list(np.max(values, axis=axis, keepdims=True).shape))
        return rounded(values, axis)

    monkeypatch.setattr(quantization_aware_callback, "rounded", watched)
    rounding = FakeQuantization(layer)
    found = layer(x).numpy()
    rounding.end()
    assert seen[0] == scales
    if "..." not in equation:  # which Keras 3.15 does not quantize: it takes the rank for the shape
        layer.quantize("int8")
        np.testing.assert_allclose(found, layer(x), rtol=1e-4, atol=1e-5)


def test_the_gradient_is_that_of_the_rounded_weights() -> None:
    """By hand: the loss of rounded weights, and the step that it asks for, taken from the weights in float."""
    x = np.random.default_rng(0).normal(size=[6, 4]).astype("float32")
    y = np.random.default_rng(1).normal(size=[6, 2]).astype("float32")
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(2, use_bias=False, name="only")])
    kernel = model.get_layer("only").kernel.numpy()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, y, batch_size=6, verbose=0, callbacks=[QuantizationAware()])

    def held(values: np.ndarray, axis: int) -> np.ndarray:
        scale = np.abs(values).max(axis=axis, keepdims=True) / 127
        return np.round(values / scale) * scale

    inputs = held(x, -1)
    step = inputs.T @ (inputs @ held(kernel, 0) - y) * 2 / y.size
    np.testing.assert_allclose(model.get_layer("only").kernel.numpy(), kernel - 0.1 * step, rtol=1e-5, atol=1e-7)


def test_what_is_trained_is_what_keras_quantizes() -> None:
    """Losses of the validation are those of the quantized model, and the model itself is in float when fit ends."""
    x, y = data()
    model = train(tf.distribute.get_strategy(), epochs=2, with_images=False)
    history = model.fit(x, y, epochs=1, verbose=0, validation_data=(x, y), callbacks=[QuantizationAware()]).history
    in_float = model.evaluate(x, y, verbose=0, return_dict=True)
    model.quantize("int8")
    in_integers = model.evaluate(x, y, verbose=0, return_dict=True)
    assert history["val_loss"][0] == pytest.approx(in_integers["loss"], rel=1e-5)
    assert abs(in_float["loss"] - in_integers["loss"]) > 1e-4 * in_integers["loss"]


@pytest.mark.slow
def test_it_loses_less_afterwards() -> None:
    """Of a layer with one large weight for each output, the others are rounded to few numbers."""
    random = np.random.default_rng(0)
    x = random.normal(size=[200, 8]).astype("float32")
    x[:, 0] *= 1e-3
    y = x[:, 1:] @ random.normal(size=[7, 1])

    def drop(*callbacks: Any) -> float:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([8]), keras.layers.Dense(16), keras.layers.Dense(1, name="last")])
        model.layers[0].kernel.assign(model.layers[0].kernel + 20.0 * np.eye(8, 1))
        model.compile(keras.optimizers.Adam(0.005), "mse")
        model.fit(x, y, epochs=40, batch_size=50, verbose=0)
        model.fit(x, y, epochs=40, batch_size=50, verbose=0, callbacks=list(callbacks))
        model.quantize("int8")
        return float(model.evaluate(x, y, verbose=0))

    assert drop(QuantizationAware()) < 0.8 * drop()


def test_without_its_gradient_nothing_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: plain rounding has no gradient."""

    def plain(values: Any, axis: Any) -> Any:
        whole, scale = keras.quantizers.abs_max_quantize(keras.ops.convert_to_tensor(values), axis=axis)
        return keras.ops.cast(whole, "float32") / scale

    before = network(with_images=False).get_weights()
    monkeypatch.setattr(quantization_aware_callback, "rounded", plain)
    after = train(tf.distribute.get_strategy(), QuantizationAware(), with_images=False).get_weights()
    # But the largest weight of each output, which sets the scale.
    assert np.mean(after[0] == before[0]) > 0.9


def test_rounded_values() -> None:
    values = tf.constant([[1.0, -127.0, 0.4], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(rounded(values, -1), [[1.0, -127.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-5)
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = tf.reduce_sum(rounded(values, -1) * [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(tape.gradient(total, values), [[1, 2, 3], [1, 2, 3]])


def test_half_precision() -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = train(tf.distribute.get_strategy(), QuantizationAware())
    finally:
        keras.config.set_dtype_policy("float32")
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_layers_that_are_chosen(tmp_path: Path) -> None:
    seen: list[str] = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            for layer in sorted(layers_of(self.model), key=lambda layer: layer.name):
                if isinstance(getattr(layer.call, "__self__", None), FakeQuantization):
                    seen.append(layer.name)

    model = train(tf.distribute.get_strategy(), QuantizationAware(skip=["last"]), Watch(), epochs=1)
    assert seen == ["conv", "hidden"]
    seen.clear()
    train(tf.distribute.get_strategy(), QuantizationAware(["last"]), Watch(), epochs=1)
    assert seen == ["last"]
    seen.clear()
    attention = keras.layers.MultiHeadAttention(2, 4, name="attention")
    inputs = keras.Input([5, 4])
    both = keras.Model(inputs, attention(keras.layers.Dense(4, name="first")(inputs), inputs))
    both.compile("sgd", "mse")
    x = np.ones([2, 5, 4])
    both.fit(x, x, verbose=0, callbacks=[QuantizationAware(["attention"], skip=["attention/key"]), Watch()])
    assert seen == ["attention_output", "query", "value"]
    model.save(tmp_path / "model.keras")
    x, _ = data()
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)


def test_what_cannot_be_trained_so() -> None:
    strategy = tf.distribute.get_strategy()
    with pytest.raises(UsageError, match=r"no layer hiden. Did you mean hidden\?"):
        train(strategy, QuantizationAware(["hiden"]))
    with pytest.raises(UsageError, match="The layer nothing is a Dropout"):
        train(strategy, QuantizationAware(["nothing"]))
    with pytest.raises(UsageError, match="no layer to train for int8"):
        train(strategy, QuantizationAware(skip=["conv", "hidden", "last"]))
    with pytest.raises(UsageError, match="Expected skip to be a list of names"):
        QuantizationAware(skip="last")


def test_its_name_in_a_config() -> None:
    problems = Problems()
    values = {"fit.callbacks": [{"name": "quantization_aware", "skip": ["last"]}]}
    (made,) = make_callbacks(values, problems)
    assert not problems.found and isinstance(made, tfdist.QuantizationAware)
