"""Writes LiteRT (TensorFlow Lite), by TensorFlow's converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.text import safe_str
from tfdist.training.artifacts.artifact_runtimes import SIGNATURE
from tfdist.training.export.saved_model_writer import write_saved_model
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import kinds_in, lacking

_PATTERNS = (r"'tf\.(\w+)' op", r"legalize operation 'tf\.(\w+)'", r"\btf\.(\w+)\(tensor", r"\bFlex(\w+)")
_LISTS = "TensorList"


def write_litert(serving: ServingFunction, file: Path, **settings: Any) -> None:
    """Writes a file whose operations are LiteRT's own, so that every runtime of it runs it.

    Args:
        serving: What is written.
        file: The file to make.
        **settings: Attributes of the converter, such as `optimizations`.

    Raises:
        UnsupportedError: LiteRT lacks an operation, whose layer is named.
    """
    with temporary_folder("litert") as folder:
        write_saved_model(serving, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=[SIGNATURE])
        converter.experimental_enable_resource_variables = True
        for name, value in settings.items():
            setattr(converter, name, value)
        try:
            content = converter.convert()
        except Exception as error:  # the converter's errors have no base of their own
            raise _explained(error, serving) from error
    file.write_bytes(content)


def _explained(error: Exception, serving: ServingFunction) -> UnsupportedError:
    message = safe_str(error)
    kinds = kinds_in(message, _PATTERNS, serving)
    lists = {kind for kind in kinds if kind.startswith(_LISTS)}
    if kinds - lists or lists:
        has_free = any(size is None for entry in serving.inputs for size in entry.shape)
        sizes = (
            "Recurrent layers have it where all sizes are fixed, the batch's too: --input-signature "
            f"{serving.inputs[0].name}={serving.inputs[0].dtype}:1,..."
        )
        return lacking("LiteRT", kinds - lists or lists, serving, sizes if lists == kinds and has_free else "")
    return UnsupportedError(
        f"TensorFlow does not convert the model to LiteRT: {' '.join(message.split())[:600]} Expected layers that "
        "LiteRT has. Choose another --format: savedmodel has what TensorFlow has."
    )
