"""The outputs of a step, by name, as arrays with one row a sample, and what they are: logits or probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError, UsageError
from tfdist.training.inference.outputs.output_formats import INDEX, KINDS, column_of


def arrays_of(outputs: Any, names: Sequence[str], samples: int) -> dict[str, NDArray]:
    """The outputs of a step by name, in the order of their names in the structure.

    Args:
        outputs: What the model returned: a tensor, or a structure of them.
        names: The names of the outputs, where it is a list or a tuple; empty where the model names none.
        samples: The samples of the step.

    Returns:
        Name -> [samples, ...]: numbers, or objects that are bytes. bfloat16, which no file holds, is float32.

    Raises:
        UnsupportedError: An output is sparse or ragged, or has another number of rows than samples.
        UsageError: Two outputs have one name, or one is called `index`.
    """
    found: dict[str, NDArray] = {}
    for name, value in named_outputs(outputs, names):
        if name in found or name == INDEX:
            instead = f"is called {INDEX}, as the column of the samples' numbers" if name == INDEX else "come twice"
            raise UsageError(
                f"The outputs of the model need a name each, and {name!r} {instead}. Expected names of their own. "
                "Rename the layer, or the key of the dict that the model returns."
            )
        found[name] = _array(name, value, samples)
    return found


def names_of(model: keras.Model) -> tuple[str, ...]:
    """The names that a model gives its outputs; empty where it gives none."""
    return tuple(getattr(model, "output_names", None) or ())


def named_outputs(outputs: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Each tensor of a structure that a model returned, with its name."""
    if isinstance(outputs, Mapping):
        for key, value in sorted(outputs.items()):
            for below, leaf in named_outputs(value, ()):
                yield (str(key) if below == "output" else f"{key}_{below.removeprefix('output_')}"), leaf
    elif isinstance(outputs, list | tuple):
        named = names if len(names) == len(outputs) else [f"output_{place}" for place in range(len(outputs))]
        for name, value in zip(named, outputs, strict=True):
            for below, leaf in named_outputs(value, ()):
                yield (name if below == "output" else f"{name}_{below.removeprefix('output_')}"), leaf
    else:
        yield "output", outputs


def _array(name: str, value: Any, samples: int) -> NDArray:
    if isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        kind, instead = "sparse", "Convert it in the model, with tf.sparse.to_dense(...)."
        if isinstance(value, tf.RaggedTensor):
            kind, instead = "ragged", "Pad it in the model, with value.to_tensor(shape=...)."
        raise UnsupportedError(
            f"The output {name!r} is {kind}. Expected as many values for each sample, which a file of arrays holds. "
            f"{instead}"
        )
    tensor = tf.convert_to_tensor(value)
    array: NDArray = (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()
    if not array.ndim or len(array) != samples:
        raise UnsupportedError(
            f"The output {name!r} has the shape {tuple(array.shape)} for a batch of {samples} samples. Expected one "
            "row for each sample, so that it can be kept by sample. Return it without reductions over the batch."
        )
    if column_of(name, array).dtype not in KINDS:
        raise UnsupportedError(
            f"The output {name!r} is {array.dtype.name}. Expected numbers, booleans or texts. Convert it in the model."
        )
    return array


Gives = Literal["logits", "probabilities"]


def gives(model: keras.Model, name: str) -> Gives | None:
    """Returns what an output of a model is, as its last layer says; None where that does not."""
    layers, names = getattr(model, "layers", []), names_of(model)
    wanted = names[0] if len(names) == 1 else name
    last = next((layer for layer in layers if layer.name == wanted), None)
    if last is None and not names and layers:
        last = layers[-1]
    if isinstance(last, keras.Model):
        return gives(last, name)
    if isinstance(last, keras.layers.Softmax):
        return "probabilities"
    activation = getattr(last, "activation", None)
    if activation in (keras.activations.softmax, keras.activations.sigmoid):
        return "probabilities"
    return "logits" if activation is keras.activations.linear else None
