"""Writes a SavedModel, the requests by which TensorFlow Serving warms it up, and OpenVINO's files made of one.

Serving runs them before it answers anybody, so that the first answer is as quick as the others. The messages are
written here field by field, as their package, tensorflow-serving-api, is one more to be installed at TensorFlow's very
version. Protocol buffers number fields for good: in prediction_log.proto, PredictionLog.predict_log is 6 and
PredictLog.request 1; in predict.proto, PredictRequest.model_spec is 1 and its map inputs 2; in model.proto,
ModelSpec.name is 1 and signature_name 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.text import safe_str
from tfdist.training.artifacts.artifact_runtimes import SIGNATURE, Arrays
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import kinds_in, lacking

PLACE = Path("assets.extra") / "tf_serving_warmup_requests"
"""The path at which Serving looks for the requests in a SavedModel."""


def write_warmup(saved_model: Path, name: str, requests: Iterable[Arrays]) -> None:
    """Writes the file into a SavedModel.

    Args:
        saved_model: Its folder.
        name: Of the model, as clients ask for it.
        requests: The inputs of each request by name.
    """
    file = saved_model / PLACE
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for inputs in requests:
            writer.write(prediction_log(name, inputs))


def prediction_log(name: str, inputs: Arrays) -> bytes:
    """A PredictionLog of one request to `Predict`, serialised."""
    spec = _field(1, name.encode()) + _field(3, SIGNATURE.encode())
    entries = [
        _field(2, _field(1, key.encode()) + _field(2, tf.make_tensor_proto(value).SerializeToString()))
        for key, value in inputs.items()
    ]
    request = _field(1, spec) + b"".join(entries)
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, a text or a message: key, length, content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


ENDPOINT = "serve"
"""Keras's name of the signature, which is TensorFlow Serving's `serving_default` as well."""


def write_saved_model(serving: ServingFunction, folder: Path) -> None:
    """Writes the folder of a SavedModel.

    Raises:
        UnsupportedError: TensorFlow cannot write the model.
    """
    archive = keras.export.ExportArchive()
    archive.track(serving.model)
    try:
        archive.add_endpoint(ENDPOINT, serving.__call__, input_signature=serving.specs)
        archive.write_out(str(folder), verbose=False)
    except (ValueError, TypeError, AssertionError, tf.errors.OpError) as error:
        raise UnsupportedError(
            f"TensorFlow does not write the model as a SavedModel: {' '.join(safe_str(error).split())} Expected that "
            "its layers hold their variables and tables as attributes."
        ) from error


MODEL_FILE = "model.xml"

_PATTERNS = (r"found for operations: ([\w, ]+)", r"failed for: ([\w, ]+)")


def write_openvino(serving: ServingFunction, folder: Path) -> None:
    """Writes the two files into a folder, with the weights in the types that the model has.

    Raises:
        UnsupportedError: OpenVINO lacks an operation, whose layer is named.
    """
    import openvino

    with temporary_folder("openvino") as saved_model:
        write_saved_model(serving, saved_model)
        try:
            converted = openvino.convert_model(str(saved_model))
            openvino.save_model(converted, str(folder / MODEL_FILE), compress_to_fp16=False)
        except Exception as error:  # its frontends raise classes of their own, and bare RuntimeErrors
            raise _explained(error, serving) from error


def _explained(error: Exception, serving: ServingFunction) -> UnsupportedError:
    kinds = kinds_in(safe_str(error), _PATTERNS, serving)
    if kinds:
        return lacking("OpenVINO", kinds, serving)
    return UnsupportedError(
        f"OpenVINO does not convert the model: {' '.join(safe_str(error).split())[:600]} Expected layers that it has. "
        "Choose another --format: savedmodel has what TensorFlow has."
    )
