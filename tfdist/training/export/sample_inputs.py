"""Samples that an artefact is tried with: of the run's data, or made from the signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.data.pipeline import Batches
from tfdist.errors import DataError, UnsupportedError
from tfdist.training.export.export_request import CalibrationRequest, InputEntry
from tfdist.training.export.serving_function import ServingFunction, leaves

_FREE_SIZE = 16
"""Of a dimension whose size is free, in samples that are made."""

_WORDS = b"the model reads these words and one it has never seen before".split()


def first_batch(batches: Batches, key: str) -> tuple[Any, ...]:
    """The first batch: inputs, and where the data has them, labels and weights.

    Raises:
        DataError: There is none.
    """
    for batch in batches:
        return batch if isinstance(batch, tuple) else (batch,)
    raise DataError(f"{key} has no samples. Expected at least one, to try what is exported with.")


def flat_inputs(samples: Any, serving: ServingFunction, key: str) -> dict[str, NDArray]:
    """The samples by the names of the inputs, in their types and shapes.

    Args:
        samples: As `sample_arrays` returns them.
        serving: What takes them.
        key: The dotted key of the data, for errors.

    Raises:
        DataError: They are not what the model takes.
    """
    arrays = _in_order(samples, serving.structure, serving.inputs, key)
    return {entry.name: _fitted(array, entry, key) for entry, array in zip(serving.inputs, arrays, strict=True)}


def made_inputs(inputs: Sequence[InputEntry], samples: int) -> dict[str, NDArray]:
    """Samples of a signature: normally distributed numbers, integers 0 and 1, and short texts; the same each time."""
    random = np.random.default_rng(7)
    return {entry.name: _made(entry, samples, random) for entry in inputs}


def filled(inputs: Mapping[str, NDArray], batch_size: int) -> dict[str, NDArray]:
    """The samples, with the first ones again behind them until the batch size divides their number."""
    have = len(next(iter(inputs.values())))
    numbers = np.arange(-(-have // batch_size) * batch_size) % have
    return {name: array[numbers] for name, array in inputs.items()}


def sample_arrays(x: Any, key: str) -> Any:
    """The inputs of a batch as arrays; texts as arrays of bytes.

    Raises:
        UnsupportedError: They are ragged or sparse.
    """
    if isinstance(x, Mapping):
        return {name: sample_arrays(value, key) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return [sample_arrays(value, key) for value in x]
    if isinstance(x, tf.RaggedTensor | tf.SparseTensor):
        raise UnsupportedError(
            f"The samples of {key} are ragged or sparse. Expected arrays, which all formats take. Pad them in the "
            "data, or give --data none with --input-signature."
        )
    array = np.asarray(x)
    return array.astype(np.bytes_) if array.dtype.hasobject else array


def _in_order(x: Any, structure: Any, inputs: Sequence[InputEntry], key: str) -> list[NDArray]:
    """The arrays in the order of the leaves of `structure`."""
    if isinstance(x, Mapping) and not isinstance(structure, Mapping):
        # Keras takes a dict by the names of the inputs.
        names = [getattr(leaf, "name", entry.name) for (_, leaf), entry in zip(leaves(structure), inputs, strict=True)]
        if not {*names} <= {*x}:
            names = [entry.name for entry in inputs]
        if len(names) == 1 and len(x) == 1:
            return [next(iter(x.values()))]
        if {*names} <= {*x}:
            return [x[name] for name in names]
    try:
        found = list(_matched(x, structure))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The samples of {key} are not what the model takes. Expected {_inputs_shown(inputs)}. Received: "
            f"{_samples_shown(x)}. Give other --data, or --data none."
        ) from error
    return found


def _matched(x: Any, structure: Any) -> Iterator[NDArray]:
    if isinstance(structure, Mapping):
        for key in structure:
            yield from _matched(x[key], structure[key])
    elif isinstance(structure, list | tuple):
        if not isinstance(x, list | tuple) and len(structure) == 1:
            x = [x]
        if not isinstance(x, list | tuple):
            raise TypeError("one array for several inputs")
        for value, below in zip(x, structure, strict=True):
            yield from _matched(value, below)
    elif isinstance(x, Mapping | list | tuple):
        raise TypeError("several arrays for one input")
    else:
        yield x


def _fitted(array: NDArray, entry: InputEntry, key: str) -> NDArray:
    """An array in the rank and type of an input, as Keras would make it."""
    rank = len(entry.shape)
    if array.ndim == rank - 1 and entry.shape[-1] == 1:
        array = array[..., np.newaxis]
    elif array.ndim == rank + 1 and array.shape[-1] == 1:
        array = array[..., 0]
    fits = array.ndim == rank and all(
        size is None or size == here for size, here in zip(entry.shape[1:], array.shape[1:], strict=True)
    )
    is_text = array.dtype.kind == "S"
    if not fits or is_text != (entry.dtype == "string"):
        raise DataError(
            f"The samples of {key} are not what the input {entry.name} takes. Expected {_inputs_shown([entry])}. "
            f"Received: {_samples_shown(array)}. Give other --data, or another --input-signature."
        )
    if is_text:
        return array
    dtype = tf.as_dtype(entry.dtype).as_numpy_dtype
    cast = array.astype(dtype)
    if np.issubdtype(dtype, np.integer) and not np.array_equal(cast, array):
        raise DataError(
            f"The samples of {key} are {array.dtype.name}, and the input {entry.name} takes {entry.dtype}, which does "
            "not hold their values. Expected numbers that stay the same. Give another --input-signature."
        )
    return cast


def _made(entry: InputEntry, samples: int, random: np.random.Generator) -> NDArray:
    shape = (samples, *(_FREE_SIZE if size is None else size for size in entry.shape[1:]))
    if entry.dtype == "string":
        picked = random.integers(0, len(_WORDS), (*shape, 6))
        texts = np.array([b" ".join(_WORDS[word] for word in row) for row in picked.reshape(-1, 6)])
        return texts.reshape(shape)
    dtype = tf.as_dtype(entry.dtype)
    if dtype.is_integer or dtype.is_bool:
        return random.integers(0, 2, shape).astype(dtype.as_numpy_dtype)
    return random.standard_normal(shape).astype(dtype.as_numpy_dtype)


def _inputs_shown(inputs: Sequence[InputEntry]) -> str:
    return ", ".join(f"{entry.name} {entry.dtype}[{', '.join(map(str, entry.shape))}]" for entry in inputs)


def _samples_shown(x: Any) -> str:
    shown = [
        f"{'_'.join(path)} {'string' if leaf.dtype.kind == 'S' else leaf.dtype.name}{list(leaf.shape)}".strip()
        for path, leaf in leaves(x)
    ]
    return ", ".join(shown)


def calibration_samples(asked: CalibrationRequest, serving: ServingFunction) -> dict[str, NDArray]:
    """The inputs by name, [samples, ...]; as many as a fixed batch size divides.

    Raises:
        DataError: They cannot be read, or are not what the model takes.
    """
    section = build(SourceConfig, dict(asked.section), asked.key)
    opened = data.from_config(section, asked.samples, asked.seed, tf.distribute.get_strategy(), asked.key)
    x = sample_arrays(first_batch(opened.batches, asked.key)[0], asked.key)
    inputs = flat_inputs(x, serving, asked.key)
    return filled(inputs, serving.fixed_batch) if serving.fixed_batch else inputs
