"""Models in every format, each run in its own runtime beside Keras; and the layers that a format lacks, by name.

Formats whose runtime is not installed are skipped: `pip install -e ".[onnx,openvino,litert]"`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from tests.helpers.marks import slow
from tfdist.errors import TfdistError, UnsupportedError
from tfdist.models import cnn, mlp, transformer
from tfdist.training.artifacts.artifact_formats import FORMATS
from tfdist.training.export.export_request import ExportRequest, InputEntry, parse_signature
from tfdist.training.export.export_steps import export
from tfdist.training.export.saved_model_writer import PLACE, prediction_log

pytestmark = pytest.mark.bound(600)
L = keras.layers


def digits() -> keras.Model:
    return mlp(inputs=[64], hidden=[16], classes=10)


def images() -> keras.Model:
    return cnn([8, 8, 1], [4], 10)


def words() -> keras.Model:
    """Its gelu is no operator of ONNX."""
    return transformer(20, 6, 3, width=8, heads=2, blocks=1)


def text() -> keras.Model:
    vectors = L.TextVectorization(max_tokens=20, output_sequence_length=4, name="to_words")
    vectors.adapt(["the model reads", "words it has seen"])
    review = keras.Input((), dtype="string", name="review")
    pooled = L.GlobalAveragePooling1D()(L.Embedding(20, 4)(vectors(review)))
    return keras.Model(review, L.Dense(3, activation="softmax")(pooled))


def several() -> keras.Model:
    image, number = keras.Input((4,), name="image"), keras.Input((6,), dtype="int32", name="number")
    both = L.Concatenate()([L.Dense(4)(image), L.Flatten()(L.Embedding(5, 2)(number))])
    outputs = {"label": L.Dense(3, activation="softmax", name="label")(both), "score": L.Dense(1, name="score")(both)}
    return keras.Model({"image": image, "number": number}, outputs)


def recurrent() -> keras.Model:
    return keras.Sequential([keras.Input((5, 3)), L.GRU(4, name="memory"), L.Dense(2)])


def export_of(make: Callable[[], keras.Model], form: str, folder: Path, *signature: str) -> dict:
    packages = FORMATS[form].packages
    for package in packages:
        pytest.importorskip(package)
    keras.utils.set_random_seed(3)
    make().save(folder / "model.keras")
    version = "1" if FORMATS[form].has_versions else ""
    target = folder / f"made{FORMATS[form].ending}"
    request = ExportRequest(
        form, str(target), version, "made", str(folder / "model.keras"), True, "model.keras", None, None, "", 70,
        parse_signature(signature), None, (), 300.0,
    )  # fmt: skip
    return export(request, lambda text: None)


OTHERS = ["onnx", "litert", "openvino", "tensorrt"]


@pytest.mark.parametrize(
    ("make", "form"),
    [slow(several, "savedmodel"), (text, "savedmodel"), *(slow(make, "savedmodel") for make in (digits, images, words))]
    + [(several, form) for form in OTHERS]
    + [slow(make, form) for make in (digits, images, words) for form in OTHERS],
)
def test_the_outputs_are_those_of_keras(make: Callable[[], keras.Model], form: str, tmp_path: Path) -> None:
    result = export_of(make, form, tmp_path)
    assert result["samples"] == 70 and result["artifact"]["one"] is not None  # 32, 32, 6 and 1: the batch is free
    for output in result["outputs"]:
        assert output["difference"] <= 1e-5, output
        assert output["same_labels"] in (None, 70)
    names = ["label", "score"] if make is several else ["output"]
    assert [output["name"] for output in result["outputs"]] == names
    assert result["bytes"] > result["weights_bytes"] > 0


@pytest.mark.parametrize(
    ("make", "form", "layer"),
    [
        (text, "onnx", "'to_words' (TextVectorization)"),
        (text, "litert", "'to_words' (TextVectorization)"),
        slow(text, "openvino", "'to_words' (TextVectorization)"),
        slow(recurrent, "litert", "'memory' (GRU)"),
    ],
)
def test_a_layer_that_a_format_lacks(make: Callable[[], keras.Model], form: str, layer: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as raised:
        export_of(make, form, tmp_path)
    assert "has no operation for" in str(raised.value) and f"of the layer {layer}" in str(raised.value)


def test_half_precision_has_its_remedy(tmp_path: Path) -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        with pytest.raises(UnsupportedError, match="compute in bfloat16.*--set precision=float32"):
            export_of(digits, "litert", tmp_path)
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.slow
def test_fixed_sizes(tmp_path: Path) -> None:
    result = export_of(recurrent, "litert", tmp_path, "input=float32:4,5,3")
    assert result["artifact"]["one"] is None and result["artifact"]["batch_size"] == 4
    assert result["outputs"][0]["difference"] <= 1e-5


@keras.saving.register_keras_serializable("tests")
class Lying(L.Layer):
    """Is another thing in a graph than outside."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x * (1.0 if tf.executing_eagerly() else 1.1)


@keras.saving.register_keras_serializable("tests")
class Python(L.Layer):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(lambda a: a, [x], tf.float32), x.shape)


@keras.saving.register_keras_serializable("tests")
class Drawing(L.Layer):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.random.normal(tf.shape(x))


def with_layer(layer: type[L.Layer]) -> Callable[[], keras.Model]:
    return lambda: keras.Sequential([keras.Input((3,)), layer(name="odd")])


def test_what_an_artefact_computes_otherwise_shows(tmp_path: Path) -> None:
    (output,) = export_of(with_layer(Lying), "savedmodel", tmp_path)["outputs"]
    assert output["difference"] > 0.05


def test_what_no_artefact_can_hold(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"of the layer 'odd' \(Python\)"):
        export_of(with_layer(Python), "savedmodel", tmp_path)
    with pytest.raises(UnsupportedError, match="draws at random"):
        export_of(with_layer(Drawing), "savedmodel", tmp_path)


def test_a_signature_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(TfdistError, match=r"The input image of the model is \[None, 4\]"):
        export_of(several, "savedmodel", tmp_path, "image=float32:None,5")
    with pytest.raises(TfdistError, match="names an input that the model does not have"):
        export_of(several, "savedmodel", tmp_path, "picture=float32:None,4")


def test_serving_loads_it_and_warms_it_up(tmp_path: Path) -> None:
    """By the loader that TensorFlow Serving has, with the requests of its warm-up file."""
    export_of(several, "savedmodel", tmp_path)
    folder = tmp_path / "made" / "1"
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(folder))
        signature = loaded.signature_def["serving_default"]
        assert signature.method_name == "tensorflow/serving/predict"
        assert {*signature.inputs} == {"image", "number"} and {*signature.outputs} == {"label", "score"}
        sizes = []
        for record in tf.compat.v1.io.tf_record_iterator(str(folder / PLACE)):
            request = prediction_log_class().FromString(record).predict_log.request
            assert request.model_spec.name == "made" and request.model_spec.signature_name == "serving_default"
            tensors = {entry.key: tensor_pb2.TensorProto.FromString(entry.value) for entry in request.inputs}
            fed = {signature.inputs[name].name: tf.make_ndarray(tensor) for name, tensor in tensors.items()}
            sizes.append(len(session.run(signature.outputs["label"].name, fed)))
    assert sizes == [1, 32]


def prediction_log_class() -> type:
    """PredictionLog by the field numbers of TensorFlow Serving's files, with tensors as bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="tests/prediction_log.proto", package="tests", syntax="proto3")
    fields = {
        "ModelSpec": [("name", 1, "string"), ("signature_name", 3, "string")],
        "Entry": [("key", 1, "string"), ("value", 2, "bytes")],
        "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "Entry")],
        "PredictLog": [("request", 1, "PredictRequest")],
        "PredictionLog": [("predict_log", 6, "PredictLog")],
    }
    kinds = {"string": 9, "bytes": 12}
    for name, of_message in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind in of_message:
            label = 3 if kind == "Entry" else 1
            added = message.field.add(name=field, number=number, label=label, type=kinds.get(kind, 11))
            if kind not in kinds:
                added.type_name = f".tests.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.PredictionLog"))


def test_warm_up_requests_are_those_of_serving() -> None:
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    inputs = {"image": np.ones([300, 2], np.float32), "review": np.array([b"a", b"bc"])}
    log = logs.PredictionLog.FromString(prediction_log("made", inputs))
    request = log.predict_log.request
    assert request.model_spec.name == "made" and request.model_spec.signature_name == "serving_default"
    for name, array in inputs.items():
        np.testing.assert_array_equal(tf.make_ndarray(request.inputs[name]).astype(array.dtype), array)


@pytest.mark.slow
def test_names_do_not_depend_on_the_process(tmp_path: Path) -> None:
    digits()
    result = export_of(with_layer(Lying), "savedmodel", tmp_path)
    assert result["inputs"] == [vars(InputEntry("input", "float32", (None, 3))) | {"shape": [None, 3]}]
