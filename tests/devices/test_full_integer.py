"""LiteRT in integers: calibrated by samples of the data, and judged by the metrics of the model."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.marks import slow
from tfdist.errors import DataError, UnsupportedError
from tfdist.models import cnn, text_classifier
from tfdist.training.artifacts.artifact_runtimes import litert_interpreter, open_artifact
from tfdist.training.export import litert_writer
from tfdist.training.export.artifact_judgement import LabelledSamples
from tfdist.training.export.export_request import CalibrationRequest, ExportRequest, parse_signature
from tfdist.training.export.export_steps import export
from tfdist.training.export.litert_writer import integer_forms
from tfdist.training.export.serving_function import serving_function

pytestmark = pytest.mark.bound(600)
L = keras.layers
SAMPLES = 70


def section(folder: Path, name: str, x: Any, y: Any) -> dict[str, Any]:
    np.savez(folder / f"{name}.npz", x_train=x, y_train=y)
    return {"format": "npz", "path": str(folder / f"{name}.npz"), "split": "train"}


def integers(
    folder: Path,
    model: keras.Model,
    x: Any,
    y: Any,
    *signature: str,
    calibrated_by: Any = None,
    max_drop: str = "5%",
    form: str = "litert-int8",
) -> dict[str, Any]:
    """Exports a model, tried with some samples and calibrated by others."""
    model.save(folder / "model.keras")
    ranges = section(folder, "ranges", x if calibrated_by is None else calibrated_by, y)
    request = ExportRequest(
        form, str(folder / "made.tflite"), "", "made", str(folder / "model.keras"), True, "model.keras", None,
        section(folder, "tried", x, y), "tried", SAMPLES, parse_signature(signature), None, (), 300.0,
        CalibrationRequest(ranges, "ranges", 33, 1, max_drop),
    )  # fmt: skip
    return export(request, lambda text: None)


def images() -> tuple[keras.Model, Any, Any]:
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(0)
    x = random.normal(size=[SAMPLES, 8, 8, 1]).astype("float32")
    y = (x.mean(axis=(1, 2, 3)) > 0).astype("int64")
    model = cnn([8, 8, 1], [8], 2)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=10, verbose=0)
    return model, x, y


def words() -> tuple[keras.Model, Any, Any]:
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(0).integers(1, 500, [SAMPLES, 20]).astype("int32")
    y = x[:, 0] % 2
    model = text_classifier(500, 20, 2)
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=10, verbose=0)
    return model, x, y


@pytest.mark.parametrize(("batch", "make"), [(None, images), slow(4, words), slow(None, words), slow(4, images)])
def test_metrics_of_both_and_a_smaller_file(make: Any, batch: int | None, tmp_path: Path) -> None:
    model, x, y = make()
    dims = ",".join(map(str, x.shape[1:]))
    result = integers(tmp_path, model, x, y, *([f"{x.dtype.name}:{batch},{dims}"] if batch else []))
    assert result["samples"] == SAMPLES and result["held"] and result["metric"] == "accuracy"
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    assert result["metrics"]["keras"] == pytest.approx(expected, rel=1e-5)
    runtime = open_artifact("litert", tmp_path / "made.tflite")
    (name,) = (entry["name"] for entry in result["inputs"])
    size = batch or SAMPLES
    batches = [x[start : start + size] for start in range(0, SAMPLES - SAMPLES % size, size)]
    outputs = np.concatenate([runtime.call({name: each})[result["outputs"][0]["name"]] for each in batches])
    if batch is None:
        assert result["metrics"]["artifact"]["accuracy"] == pytest.approx(np.mean(np.argmax(outputs, -1) == y))
        losses = keras.losses.sparse_categorical_crossentropy(y, outputs)
        assert result["metrics"]["artifact"]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    # One byte a weight, and some kilobytes of what is not weights.
    assert result["bytes"] < result["weights_bytes"] / 4 + 8000
    # Not float up to rounding: outputs lie on a grid of 256 numbers.
    assert np.abs(outputs * 256 - np.round(outputs * 256)).max() < 1e-4
    assert result["float_layers"] == []


def test_layers_in_forms_that_have_integers() -> None:
    keras.utils.set_random_seed(3)
    layers = [L.Embedding(9, 4, mask_zero=True), L.LayerNormalization(), L.LayerNormalization(axis=(1, 2), scale=False)]
    model = keras.Sequential([keras.Input([5], dtype="int32"), *layers])
    for weight in model.weights:
        weight.assign(np.random.default_rng(1).normal(size=weight.shape))
    x = np.random.default_rng(0).integers(0, 9, [SAMPLES, 5]).astype("int32")
    expected = model(x).numpy()
    before = [layer.call for layer in model.layers]
    with integer_forms(model):
        assert all(layer.call != call for layer, call in zip(model.layers, before, strict=True))
        np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert [layer.call for layer in model.layers] == before


@pytest.mark.slow
@pytest.mark.parametrize("make", [images, words])
def test_activations_of_16_bits_are_nearer(make: Any, tmp_path: Path) -> None:
    model, x, y = make()
    coarse = integers(tmp_path, model, x, y)
    result = integers(tmp_path, model, x, y, form="litert-int16x8")
    assert result["held"] and result["float_layers"] == []
    (difference,), (of_coarse,) = ([one["difference"] for one in each["outputs"]] for each in (result, coarse))
    assert difference < of_coarse
    types = [np.dtype(one["dtype"]).name for one in interpreter_of(tmp_path / "made.tflite").get_tensor_details()]
    assert "int16" in types and "int8" in types


def test_products_of_activations_by_kernels_that_are_right(tmp_path: Path) -> None:
    """TensorFlow 2.21 has XNNPACK compute them, which errs five times as much: by 1.5 of 24, in the worst number."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((24, 16))
    products = keras.ops.matmul(L.Dense(16)(inputs), keras.ops.transpose(inputs, (0, 2, 1)))
    model = keras.Model(inputs, products)
    x = np.random.default_rng(0).normal(size=(64, 24, 16)).astype("float32")
    serving = serving_function(model, x)
    (entry,) = serving.inputs
    litert_writer.write_integers(serving, tmp_path / "made.tflite", {entry.name: x}, 8)
    (found,) = open_artifact("litert", tmp_path / "made.tflite").call({entry.name: x}).values()
    difference = found - model.predict(x, verbose=0)
    assert np.sqrt(np.mean(difference**2)) < 0.15 and np.abs(difference).max() < 0.7


def interpreter_of(file: Path) -> Any:
    interpreter, _ = litert_interpreter(file, threads=1, delegates=False)
    interpreter.allocate_tensors()
    return interpreter


def test_whole_numbers_without_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Keras's Embedding has them, which adds to negative numbers of rows."""
    monkeypatch.setattr(litert_writer, "integer_forms", lambda model: contextlib.nullcontext())
    model, x, y = words()
    with pytest.raises(UnsupportedError, match=r"computes with whole numbers.*or choose --format litert-int8"):
        integers(tmp_path, model, x, y, form="litert-int16x8")


@pytest.mark.slow
def test_ranges_are_those_of_the_samples(tmp_path: Path) -> None:
    """By samples of another scale activations are cut off, and the budget is not held."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([6]), L.Dense(32, "relu"), L.Dense(3, name="score")])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=[SAMPLES, 6]).astype("float32")
    y = model.predict(x, verbose=0) + 1
    good = integers(tmp_path, model, x, y)
    assert good["held"] and good["metric"] == "loss"
    bad = integers(tmp_path, model, x, y, calibrated_by=x / 20)
    assert not bad["held"] and bad["drop"] > 5 * abs(good["drop"])


def test_several_outputs_in_their_places() -> None:
    keras.utils.set_random_seed(3)
    inputs = keras.Input([6], name="x")
    hidden = L.Dense(16, "relu")(inputs)
    label = L.Dense(3, activation="softmax", name="first")(hidden)
    model = keras.Model(inputs, {"score": L.Dense(1, name="second")(hidden), "label": label})
    losses = {"score": "mse", "label": "sparse_categorical_crossentropy"}
    model.compile("adam", losses, metrics={"label": ["accuracy"]})
    x = np.random.default_rng(0).normal(size=[SAMPLES, 6]).astype("float32")
    predicted = model.predict(x, verbose=0)
    y = {"score": predicted["score"] + 1, "label": np.argmax(predicted["label"], axis=-1)}
    serving = serving_function(model, x)
    found = {name: value.numpy() for name, value in serving(x).items()}
    metrics = LabelledSamples.of(serving, {"x": x}, (x, y), "data").metrics(found)
    # In one batch: Keras averages the losses of each output over batches, whatever their sizes.
    expected = model.evaluate(x, y, batch_size=SAMPLES, verbose=0, return_dict=True)
    assert metrics == pytest.approx(expected, rel=1e-5)


def test_samples_without_labels() -> None:
    model, x, _ = images()
    with pytest.raises(DataError, match="The samples of tried have no labels"):
        LabelledSamples.of(serving_function(model, x), {"image": x}, (x,), "tried")
