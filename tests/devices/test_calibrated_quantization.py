"""GPTQ and AWQ: what they lose beside rounding to the nearest, on any number of replicas, and in a file of Keras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.keras_differences import is_from
from tfdist.models import transformer
from tfdist.training.quantization import calibrated_kernel
from tfdist.training.quantization.calibrated_kernel import (
    KernelLayout,
    awq_round,
    gptq_round,
    layout_of,
    output_error,
    round_to_nearest,
)
from tfdist.training.quantization.input_moments import InputMoments, measure_moments, run_through
from tfdist.training.quantization.layer_quantization import CalibratedMethod, input_sizes, layers_by_name, weight_bytes
from tfdist.training.quantization.quantized_files import QuantizedFiles

SAMPLES, INPUTS = 45, 12
needs_awq = pytest.mark.skipif(not is_from("3.14"), reason="this Keras has no AWQ")
MODES = [slow("gptq", 4), ("gptq", 8), pytest.param("awq", 4, marks=[needs_awq, pytest.mark.slow])]


def correlated_inputs(samples: int = 200) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.normal(size=(samples, 5)) @ random.normal(size=(5, INPUTS)) * np.linspace(0.1, 3, INPUTS)


@pytest.mark.parametrize("group_size", [-1, 5])
def test_outputs_change_less_than_by_rounding_to_the_nearest(group_size: int) -> None:
    x = correlated_inputs()
    weights, gram = np.random.default_rng(1).normal(size=(7, INPUTS)), x.T @ x
    errors = {
        "nearest": round_to_nearest(weights, 4, group_size),
        "gptq": gptq_round(weights, gram, 4, group_size),
        "awq": awq_round(weights, gram, np.abs(x).mean(axis=0), 4, group_size),
    }
    found = {name: output_error(weights, rounded.weights(), gram) for name, rounded in errors.items()}
    expected = np.sum((x @ (weights - errors["nearest"].weights()).T) ** 2)
    np.testing.assert_allclose(found["nearest"], expected, rtol=1e-9)
    assert found["gptq"] < found["nearest"] / 2 and found["awq"] < found["nearest"]


def test_inputs_that_were_always_zero_are_rounded_to_the_nearest() -> None:
    weights = np.random.default_rng(1).normal(size=(7, INPUTS))
    rounded = gptq_round(weights, np.zeros([INPUTS, INPUTS]), 4, 128)
    np.testing.assert_array_equal(rounded.weights(), round_to_nearest(weights, 4, 128).weights())


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors reach later blocks at once: the result is that of one block."""
    x = correlated_inputs()
    weights, gram = np.random.default_rng(1).normal(size=(7, INPUTS)), x.T @ x
    expected = gptq_round(weights, gram, 4, 5)
    monkeypatch.setattr("tfdist.training.quantization.calibrated_kernel._BLOCK", 4)
    rounded = gptq_round(weights, gram, 4, 5)
    np.testing.assert_array_equal(rounded.levels, expected.levels)
    np.testing.assert_allclose(rounded.scales, expected.scales, rtol=1e-6)


def dense_of(equation: str, shape: tuple[int, ...], inputs: tuple[int, ...]) -> keras.layers.Layer:
    layer = keras.layers.EinsumDense(equation, shape)
    layer.build(inputs)
    return layer


def test_kernels_that_keras_keeps_as_a_matrix_of_inputs_and_outputs() -> None:
    attention = dense_of("abc,cde->abde", (None, 2, 3), (None, 4, 8))
    assert layout_of(attention) == KernelLayout(8, 6)
    assert layout_of(dense_of("abde,dec->abc", (None, 8), (None, 4, 2, 3))) == KernelLayout(6, 8)
    assert layout_of(dense_of("ax,xy->ay", (5,), (None, 3))) == KernelLayout(3, 5)
    assert layout_of(dense_of("...x,xy->...y", (5,), (None, 3))) is None  # which Keras does not quantize
    wide_heads = dense_of("abc,cde->abde", (None, 2, 9), (None, 4, 8))  # Keras goes by the largest size
    experts = dense_of("bec,ecd->bed", (2, 5), (None, 2, 3))
    turned = dense_of("ab,cb->ac", (5,), (None, 3))
    assert [layout_of(layer) for layer in (wide_heads, experts, turned, keras.layers.ReLU())] == [None] * 4


def small_transformer() -> keras.Model:
    keras.utils.set_random_seed(5)
    model = transformer(9, 6, 3, width=8, heads=2, blocks=1)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


TOKENS = np.random.default_rng(0).integers(0, 9, (SAMPLES, 6)).astype("int32")


def moments(strategy: tf.distribute.Strategy, batch_size: int) -> dict[str, InputMoments]:
    with strategy.scope():
        model = small_transformer()
    layers = layers_by_name(model)
    chosen = {name: (layers[name], size) for name, size in input_sizes(layers).items()}
    batches = tf.data.Dataset.from_tensor_slices(TOKENS).batch(batch_size)
    steps = -(-SAMPLES // batch_size)
    return dict(measure_moments(chosen, lambda: run_through(model, batches, steps), strategy))


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize(("batch_size", "replicas"), [slow(15, 3), (22, 2), slow(15, 2), slow(22, 3)])
def test_moments_are_those_of_one_replica(replicas: int, batch_size: int) -> None:
    """Of 45 samples in batches of 22 the last has one, so that replicas have none."""
    expected = list(moments(tf.distribute.get_strategy(), SAMPLES).values())
    found = list(moments(mirrored(replicas), batch_size).values())
    assert len(found) == len(expected) == 7
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.gram, other.gram, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mine.magnitudes, other.magnitudes, rtol=1e-5)


@pytest.mark.usefixtures("repaired")
def test_layers_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = moments(tf.distribute.get_strategy(), SAMPLES)
    monkeypatch.setattr("tfdist.training.quantization.input_moments.MOST_BYTES", 8 * 2 * 8**2)
    found = moments(tf.distribute.get_strategy(), SAMPLES)
    for mine, other in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(mine.gram, other.gram, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize(("mode", "bits"), MODES)
def test_a_file_that_keras_loads_in_another_process(mode: str, bits: int, tmp_path: Path) -> None:
    """Keras 3.14 and 3.15 leave the zeros out of the file: "expected 5 variables, but received 0"."""
    model, method = small_transformer(), CalibratedMethod(mode, bits, 4)
    files = QuantizedFiles(model, "the model", method, tmp_path)
    of_float = keras.models.load_model(files.float_file)
    layers = layers_by_name(of_float)
    chosen = {name: (layers[name], size) for name, size in input_sizes(layers).items()}
    for name, measured in measure_moments(
        chosen, lambda: of_float.predict(TOKENS, verbose=0), tf.distribute.get_strategy()
    ):
        method.take(name, layers[name], measured)
    file = files.write(files.names)
    loaded = keras.models.load_model(file)
    modes = {layer.quantization_mode for layer in layers_by_name(loaded).values() if layer.weights}
    assert modes == {mode, f"int{bits}", None} and weight_bytes(loaded) < weight_bytes(model) / 1.4
    # What it computes with are the weights that were chosen.
    for name, kernel in method.kernels.items():
        assign_kernel(layers[name], kernel.weights())
    for name in layers:
        if name.startswith("embedding"):
            layers[name].quantize(f"int{bits}")
    of_float.predict_function = None
    predicted = loaded.predict(TOKENS, verbose=0)
    np.testing.assert_allclose(predicted, of_float.predict(TOKENS, verbose=0), rtol=1e-5, atol=1e-6)
    if bits == 8:
        return  # what another process loads does not differ by the mode
    np.save(tmp_path / "tokens.npy", TOKENS)
    code = (
        "import sys, keras, numpy as np; x = np.load('tokens.npy'); model = keras.models.load_model(sys.argv[1]);"
        "np.savez('loaded.npz', model.predict(x, verbose=0), *model.get_weights())"
    )
    load = [sys.executable, "-W", "error:Skipping", "-c", code, str(file)]
    subprocess.run(load, check=True, timeout=120, cwd=tmp_path, capture_output=True)
    with np.load(tmp_path / "loaded.npz") as found:
        outputs, *weights = found.values()
    np.testing.assert_allclose(outputs, predicted, rtol=1e-5, atol=1e-6)
    for mine, other in zip(weights, loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


def assign_kernel(layer: keras.layers.Layer, weights: np.ndarray) -> None:
    layer.kernel.assign(weights.T.reshape(layer.kernel.shape))


@needs_awq
def test_that_keras_loses_the_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrated_kernel, "save_all_weights", lambda layer: None)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    files = QuantizedFiles(model, "the model", CalibratedMethod("gptq", 4, 128), tmp_path)
    with pytest.raises(ValueError, match="expected 5 variables"):
        keras.models.load_model(files.write(files.names))


def test_models_without_such_layers_and_a_keras_without_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convolutions = keras.Sequential([keras.Input([4, 4, 1]), keras.layers.Conv2D(2, 3)])
    with pytest.raises(UnsupportedError, match=r"no layer that gptq covers. Expected .*Dense.* Received: Conv2D"):
        QuantizedFiles(convolutions, "the model", CalibratedMethod("gptq", 4, 128), tmp_path)
    monkeypatch.delattr(keras.quantizers, "AWQConfig", raising=False)
    dense = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    with pytest.raises(UnsupportedError, match="has no awq. Expected a version that has it"):
        QuantizedFiles(dense, "the model", CalibratedMethod("awq", 4, 128), tmp_path)
