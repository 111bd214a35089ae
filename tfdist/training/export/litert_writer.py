"""Writes LiteRT (TensorFlow Lite), by TensorFlow's converter: with floats, or in integers.

Layers that compute the same by operations of which LiteRT has kernels in integers.

LayerNormalization negates the mean and squares differences, and an Embedding adds to numbers of rows that are negative:
LiteRT has the first in float alone, the second not in int16, and does not calibrate the third.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.model_checks.model_facts import layers_of
from tfdist.rundir.temp_names import temporary_folder
from tfdist.text import safe_str
from tfdist.training.artifacts.artifact_runtimes import SIGNATURE, litert_interpreter
from tfdist.training.export.saved_model_writer import write_saved_model
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import kinds_in, lacking, layer_at

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


_OPERATIONS = {
    8: [tf.lite.OpsSet.TFLITE_BUILTINS_INT8],
    # What has no int16 stays in float.
    16: [
        tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
        tf.lite.OpsSet.TFLITE_BUILTINS,
    ],
}
"""Bits of an activation -> the sets of operations that a file may have."""
Call = Callable[[Any], Any]


def write_integers(
    serving: ServingFunction, file: Path, samples: Mapping[str, NDArray], activation_bits: int
) -> None:
    """Writes a file whose weights are int8: each output of a layer's weights has a scale of its own.

    Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference" (2018).
    Inputs and outputs keep their types.

    Args:
        serving: What is written.
        file: The file to make.
        samples: Name of an input -> [samples, ...], by which ranges are chosen; a fixed batch size divides them.
        activation_bits: Of an activation, 8 or 16.

    Raises:
        UnsupportedError: LiteRT lacks an operation, or its integers for one; its layer is named.
    """
    size = serving.fixed_batch or 1

    def batches() -> Iterator[tuple[str, dict[str, NDArray]]]:
        for start in range(0, len(next(iter(samples.values()))), size):
            yield SIGNATURE, {name: array[start : start + size] for name, array in samples.items()}

    with integer_forms(serving.model):
        # Of the same model, traced again.
        again = dataclasses.replace(serving)
        try:
            write_litert(
                again,
                file,
                optimizations=[tf.lite.Optimize.DEFAULT],
                representative_dataset=batches,
                target_spec=tf.lite.TargetSpec(supported_ops=_OPERATIONS[activation_bits]),
            )
        except UnsupportedError as error:
            raise _of_whole_numbers(error, again) from error


def _of_whole_numbers(error: UnsupportedError, serving: ServingFunction) -> UnsupportedError:
    """Says what a converter to int16 means by a tensor without ranges: it takes any addition for one of activations."""
    found = re.search(r"Empty min/max for tensor (\S+)", safe_str(error))
    if found is None:
        return error
    layer = layer_at(found.group(1), serving)
    place = f" in the layer {layer}" if layer else f", from {found.group(1)}"
    return UnsupportedError(
        f"The model computes with whole numbers{place}, of which LiteRT has no ranges where activations are int16. "
        "Expected whole numbers as numbers of rows of an Embedding alone. Compute with them before the model is "
        "called, or choose --format litert-int8."
    )


def float_layers(file: Path, serving: ServingFunction) -> list[str]:
    """The layers of which something is computed in float all the same, as LiteRT has no integers for an operation.

    Args:
        file: As `write_integers` makes it.
        serving: What it was made of.
    """
    interpreter, _ = litert_interpreter(file, threads=1, delegates=False)
    interpreter.allocate_tensors()
    outside = {one["index"] for one in (*interpreter.get_input_details(), *interpreter.get_output_details())}
    names = [
        one["name"]
        for one in interpreter.get_tensor_details()
        if one["index"] not in outside and np.issubdtype(one["dtype"], np.floating)
    ]
    return list(dict.fromkeys(layer for name in names if (layer := layer_at(name, serving))))


@contextlib.contextmanager
def integer_forms(model: keras.Model) -> Iterator[None]:
    """Inside, a model that is traced has these forms.

    Args:
        model: A built model, whose layers compute in float32.
    """
    with contextlib.ExitStack() as stack:
        for layer in layers_of(model):
            form = _form_of(layer)
            if form is not None:
                stack.callback(setattr, layer, "call", layer.call)
                layer.call = form
        yield


def _form_of(layer: keras.layers.Layer) -> Call | None:
    if layer.compute_dtype != "float32" or layer.quantization_mode is not None or not layer.built:
        return None
    if type(layer) is keras.layers.LayerNormalization and not getattr(layer, "rms_scaling", False):
        return _normalization(layer)
    if type(layer) is keras.layers.Embedding and not layer.lora_enabled:
        return _lookup(layer)
    return None


def _normalization(layer: keras.layers.Layer) -> Call:
    axes = tuple(layer.axis) if isinstance(layer.axis, list | tuple) else (layer.axis,)

    def call(inputs: Any) -> Any:
        rank = len(inputs.shape)
        shape = [inputs.shape[axis] if axis in {each % rank for each in axes} else 1 for axis in range(rank)]
        difference = inputs - keras.ops.mean(inputs, axis=axes, keepdims=True)
        variance = keras.ops.mean(difference * difference, axis=axes, keepdims=True)
        outputs = difference * keras.ops.rsqrt(variance + layer.epsilon)
        if layer.gamma is not None:
            outputs = outputs * keras.ops.reshape(layer.gamma, shape)
        return outputs if layer.beta is None else outputs + keras.ops.reshape(layer.beta, shape)

    return call


def _lookup(layer: keras.layers.Layer) -> Call:
    # Keras takes a negative number for one from the end of the table; here it is outside of it.
    def call(inputs: Any) -> Any:
        return tf.gather(tf.convert_to_tensor(layer.embeddings), keras.ops.cast(inputs, "int32"))

    return call
