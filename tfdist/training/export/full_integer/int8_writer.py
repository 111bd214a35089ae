"""Writes LiteRT in 8-bit integers, with the ranges of activations that samples have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.training.artifacts.artifact_runtimes import SIGNATURE, litert_interpreter
from tfdist.training.export.litert_writer import write_litert
from tfdist.training.export.serving_function import ServingFunction
from tfdist.training.export.unsupported_layers import layer_at


def write_int8(serving: ServingFunction, file: Path, samples: Mapping[str, NDArray]) -> None:
    """Writes a file whose weights and activations are int8: each output of a layer's weights has a scale of its own.

    Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference" (2018).
    Inputs and outputs keep their types.

    Args:
        serving: What is written.
        file: The file to make.
        samples: Name of an input -> [samples, ...], by which ranges are chosen; a fixed batch size divides them.

    Raises:
        UnsupportedError: LiteRT lacks an operation, whose layer is named.
    """
    size = serving.fixed_batch or 1

    def batches() -> Iterator[tuple[str, dict[str, NDArray]]]:
        for start in range(0, len(next(iter(samples.values()))), size):
            yield SIGNATURE, {name: array[start : start + size] for name, array in samples.items()}

    write_litert(
        serving,
        file,
        optimizations=[tf.lite.Optimize.DEFAULT],
        representative_dataset=batches,
        target_spec=tf.lite.TargetSpec(supported_ops=[tf.lite.OpsSet.TFLITE_BUILTINS_INT8]),
    )


def float_layers(file: Path, serving: ServingFunction) -> list[str]:
    """The layers of which something is computed in float all the same, as LiteRT has no integers for an operation.

    Args:
        file: As `write_int8` makes it.
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
