"""The function of a model that is exported: flat inputs by name, outputs by name, and nothing of the training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.training.export.export_request import InputEntry
from tfdist.training.inference.outputs.step_outputs import named_outputs, names_of

_AUTOMATIC = re.compile(r"(?:keras_tensor|input_layer|input)(?:_?\d+)?(?:CLONE)?")
"""Names that Keras gives inputs by their number in the process."""


@dataclass(frozen=True)
class ServingFunction:
    """A model's `call` without training.

    Attributes:
        model: The model.
        structure: What it takes, with the places of `inputs` as leaves.
        inputs: The inputs in the order of their leaves, each with its name.
    """

    model: keras.Model
    structure: Any
    inputs: tuple[InputEntry, ...]

    def __call__(self, *flat: Any) -> dict[str, Any]:
        """The outputs by name, of the inputs in their order."""
        outputs = self.model(packed(self.structure, iter(flat)), training=False)
        found: dict[str, Any] = {}
        for name, value in named_outputs(outputs, names_of(self.model)):
            if isinstance(value, tf.SparseTensor | tf.RaggedTensor):
                raise UnsupportedError(
                    f"The output {name!r} of the model is sparse or ragged. Expected tensors, which all formats have. "
                    "Convert it in the model, with tf.sparse.to_dense(...) or value.to_tensor(...)."
                )
            key = safe_name(name)
            if key in found:
                raise UsageError(
                    f"Two outputs of the model are called {key!r}. Expected a name each. Rename the layer, or the key "
                    "of the dict that the model returns."
                )
            found[key] = tf.convert_to_tensor(value)
        return found

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """The inputs as TensorFlow describes them."""
        return [tf.TensorSpec(entry.shape, entry.dtype, name=entry.name) for entry in self.inputs]

    @cached_property
    def function(self) -> Any:
        """It as a `tf.function` of these inputs."""
        return tf.function(self.__call__, input_signature=self.specs, autograph=False)

    @cached_property
    def graph(self) -> tf.Graph:
        """The graph of `function`."""
        return self.function.get_concrete_function().graph

    @property
    def fixed_batch(self) -> int | None:
        """The number of samples that it takes at once; None where that is free."""
        sizes = {entry.shape[0] for entry in self.inputs}
        if len(sizes) > 1:
            raise UsageError(
                f"The inputs of the model have different batch sizes: {', '.join(map(str, sizes))}. Expected one, or "
                "None for all. Change --input-signature."
            )
        return sizes.pop()


def serving_function(
    model: keras.Model, samples: Any | None, asked: Sequence[InputEntry] = (), *, shown: str = "The model"
) -> ServingFunction:
    """The function of a model.

    Args:
        model: Built, or one that is built by its first samples.
        samples: What it takes, as arrays [samples, ...]; None where there is no data.
        asked: Inputs as the user gives them, in place of the model's own.
        shown: The model in words.

    Raises:
        UsageError: Nothing says what it takes, or `asked` names other inputs than it has.
    """
    symbolic = _symbolic_inputs(model)
    if symbolic is not None:
        structure, own = symbolic, _entries(symbolic)
    elif samples is not None:
        structure, own = samples, _entries(samples)
    elif asked:
        structure = asked[0] if len(asked) == 1 else {entry.name: entry for entry in asked}
        own = [InputEntry(entry.name or "input", entry.dtype, entry.shape) for entry in asked]
    else:
        raise UsageError(
            f"{shown} does not say what it takes: its layers are called in a `call` of its own. Expected its inputs. "
            "Give --data, or --input-signature once for each input."
        )
    return ServingFunction(model, structure, tuple(_replaced(own, asked)))


def leaves(structure: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of nested dicts, lists and tuples, each with the keys that lead to it; places in lists have none."""
    if isinstance(structure, Mapping):
        for key, value in structure.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(structure, list | tuple):
        for value in structure:
            yield from leaves(value, path)
    else:
        yield path, structure


def packed(structure: Any, values: Iterator[Any]) -> Any:
    """The structure with other leaves, in their order."""
    if isinstance(structure, Mapping):
        return {key: packed(value, values) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return [packed(value, values) for value in structure]
    return next(values)


def safe_name(name: str) -> str:
    """A name that every format takes: letters, digits and `_`."""
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    return safe if safe[:1].isalpha() else f"_{safe}".replace("__", "_")


def _symbolic_inputs(model: keras.Model) -> Any | None:
    """Returns what a model of symbolic inputs takes; None for others."""
    if isinstance(model, keras.Sequential):
        return model.inputs[0] if model.built and model.inputs else None
    return model.input if getattr(model, "inputs", None) else None


def _entries(structure: Any) -> list[InputEntry]:
    """The inputs of a structure of symbolic tensors or of arrays, with names that do not depend on the process."""
    found = list(leaves(structure))
    entries: list[InputEntry] = []
    for place, (path, leaf) in enumerate(found):
        name = "_".join(path) or getattr(leaf, "name", "")
        if not name or (not path and _AUTOMATIC.fullmatch(name)):
            name = "input" if len(found) == 1 else f"input_{place}"
        dtype = "string" if leaf.dtype.__class__.__name__.startswith("Bytes") else tf.as_dtype(leaf.dtype).name
        entries.append(InputEntry(_unique(safe_name(name), entries), dtype, (None, *leaf.shape[1:])))
    return entries


def _unique(name: str, earlier: Sequence[InputEntry]) -> str:
    taken = {entry.name for entry in earlier}
    return name if name not in taken else next(one for k in range(1, 10**6) if (one := f"{name}_{k}") not in taken)


def _replaced(own: Sequence[InputEntry], asked: Sequence[InputEntry]) -> Iterator[InputEntry]:
    given = {entry.name or own[0].name: entry for entry in asked}
    if len(own) > 1 and any(not entry.name for entry in asked) or not {*given} <= {entry.name for entry in own}:
        names = ", ".join(entry.name or "(none)" for entry in asked)
        raise UsageError(
            "--input-signature names an input that the model does not have. Expected one of "
            f"{', '.join(entry.name for entry in own)}. Received: {names}"
        )
    for entry in own:
        other = given.get(entry.name, entry)
        fits = len(other.shape) == len(entry.shape) and all(
            here is None or there == here for there, here in zip(other.shape, entry.shape, strict=True)
        )
        if not fits:
            raise UsageError(
                f"The input {entry.name} of the model is {_shown(entry.shape)}. Expected --input-signature with the "
                f"same sizes, where it has any. Received: {_shown(other.shape)}"
            )
        yield InputEntry(entry.name, other.dtype, other.shape)


def _shown(shape: Sequence[int | None]) -> str:
    return f"[{', '.join(map(str, shape))}]"
