"""Writes OpenVINO's intermediate representation: `model.xml` and `model.bin`."""

from __future__ import annotations

from pathlib import Path

from tfdist.errors import UnsupportedError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.text import safe_str
from tfdist.training.export.saved_model_writer import write_saved_model
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import kinds_in, lacking

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
