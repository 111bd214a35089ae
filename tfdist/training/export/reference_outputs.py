"""What Keras itself computes, which an artefact is compared with, and how long it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.training.artifacts.call_times import Arrays, CallTimes, batches_of, take_times
from tfdist.training.artifacts.output_comparison import compare_output
from tfdist.training.export.serving_function import ServingFunction, packed
from tfdist.training.model_outputs.step_outputs import arrays_of

_REPEATED = 1e-6


def reference_outputs(serving: ServingFunction, inputs: Arrays, batch_size: int) -> dict[str, NDArray]:
    """The outputs of the model's `call` without training, step by step and not as the graph that is exported.

    Args:
        serving: The model.
        inputs: Name -> [samples, ...].
        batch_size: Samples of a call.

    Returns:
        Name -> [samples, ...]; texts as bytes, bfloat16 as float32.

    Raises:
        UnsupportedError: The model gives other outputs each time, or an output without a row for each sample.
    """
    batches = batches_of(inputs, batch_size)
    found = [_outputs(serving, batch) for batch in batches]
    for name, again in _outputs(serving, batches[0]).items():
        apart = compare_output(name, found[0][name], again).difference
        if apart > _REPEATED:
            raise UnsupportedError(
                f"The model draws at random: two calls of Keras with the same samples differ by {apart:.2g} in the "
                f"output {name!r}, so that nothing can be compared with it. Expected the same outputs for the same "
                "samples. Draw outside of the model, or only while it trains."
            )
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def keras_times(serving: ServingFunction, inputs: Arrays, batch_size: int) -> CallTimes:
    """How long Keras takes: the model as a `tf.function`, as `predict` calls it, without the work around that."""

    def forward(*flat: tf.Tensor) -> Any:
        return serving.model(packed(serving.structure, iter(flat)), training=False)

    function = tf.function(forward, reduce_retracing=True, autograph=False)

    def call(batch: Arrays) -> Any:
        return tf.nest.map_structure(lambda value: value.numpy(), function(*map(tf.constant, batch.values())))

    return take_times(call, inputs, batch_size, is_fixed=serving.fixed_batch is not None)


def _outputs(serving: ServingFunction, batch: Arrays) -> dict[str, NDArray]:
    samples = len(next(iter(batch.values())))
    found = serving(*map(tf.constant, batch.values()))
    arrays = {name: arrays_of(value, (), samples)["output"] for name, value in found.items()}
    return {name: array.astype(np.bytes_) if array.dtype.hasobject else array for name, array in arrays.items()}
