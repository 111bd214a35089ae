"""Files of one model, with any of its layers quantized: what the chief writes."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import keras

from tfdist.errors import UnsupportedError, UsageError
from tfdist.text import safe_str
from tfdist.training.quantization.layer_quantization import (
    LayerFacts,
    QuantizationMethod,
    facts_of,
    layers_by_name,
    quantize_layers,
    quantized_names,
    recordable_names,
)


class QuantizedFiles:
    """Writes a float model to files, with some of its layers quantized. On the chief alone, outside of the strategy.

    Args:
        model: The float model, built.
        shown: It in words, for errors.
        method: How weights are kept.
        folder: Where the files go.

    Attributes:
        float_file: The model with no layer quantized.
        layers: What is known of its layers that have weights, by name.
        names: Those that can be quantized, in the order of the model.
        unrecordable: Those that the method covers, and that a file could not say of.

    Raises:
        UnsupportedError: The model cannot be written to a file and read again, or has no layer that the mode covers.
        UsageError: It is quantized already.
    """

    def __init__(self, model: keras.Model, shown: str, method: QuantizationMethod, folder: Path) -> None:
        self._shown, self._method, self._folder = shown, method, folder
        already = sorted(quantized_names(model))
        if already:
            raise UsageError(
                f"{shown} is quantized already: {', '.join(already[:3])}. Expected a float model. Give the one that it "
                "was made of."
            )
        without_slots(model)
        self.float_file = folder / "float.keras"
        model.save(self.float_file)
        # Of the model as it is loaded: the paths of one that code has built may begin with the model's name.
        trial = self._read()
        self.layers: Mapping[str, LayerFacts] = facts_of(layers_by_name(trial))
        covered = quantize_layers(trial, self.layers, method)
        recordable = recordable_names(trial)
        self.names = tuple(name for name in self.layers if name in recordable)
        self.unrecordable = tuple(name for name in self.layers if name in covered - recordable)
        if not self.names:
            raise UnsupportedError(self._nothing_to_quantize())

    def write(self, quantized: Collection[str]) -> Path:
        """A file of the model with these layers quantized; the next one takes its place."""
        model = self._read()
        quantize_layers(model, quantized, self._method)
        file = self._folder / "quantized.keras"
        model.save(file)
        return file

    def kept(self, patterns: Collection[str]) -> frozenset[str]:
        """The layers that `--keep-float` names.

        Raises:
            UsageError: A pattern names none, or together they name all that could be quantized.
        """
        found: set[str] = set()
        for pattern in patterns:
            named = {name for name in self.layers if fnmatchcase(name, pattern)}
            if not named:
                raise UsageError(
                    f"--keep-float {pattern}: {self._shown} has no such layer. Expected one of "
                    f"{', '.join(self.layers)}; * stands for any letters. Received: {pattern}"
                )
            found |= named
        if found >= set(self.names):
            raise UsageError(
                "--keep-float names all layers that could be quantized: nothing is left to do. Expected some of "
                f"{', '.join(self.names)}. Received: {', '.join(patterns)}"
            )
        return frozenset(found)

    def _read(self) -> keras.Model:
        try:
            return keras.models.load_model(self.float_file)
        except (TypeError, ValueError, ImportError, AttributeError) as error:
            raise UnsupportedError(
                f"{self._shown} was written to a .keras file, and Keras cannot read that again: "
                f"{' '.join(safe_str(error).split())[:500]} Expected layers with a get_config from which they can be "
                "made. Register your own with keras.saving.register_keras_serializable()."
            ) from error

    def _nothing_to_quantize(self) -> str:
        if self.unrecordable:
            return (
                f"No file could say which layers of {self._shown} are quantized: {', '.join(self.unrecordable)} are "
                "made by layers, or by a model, of your own, which make them in float again when Keras loads the file. "
                "Expected that what makes layers hands them its policy. Give them dtype=self.dtype_policy where they "
                "are made, or build the model of Keras's layers."
            )
        kinds = sorted({facts.kind for facts in self.layers.values()})
        return (
            f"{self._shown} has no layer that {self._method.mode} covers. Expected at least one of "
            f"{self._method.covered}; of subclasses Keras quantizes none. Received: "
            f"{', '.join(kinds) or 'no layer with weights'}. Nothing was made: leave this model in float."
        )


def without_slots(model: keras.Model) -> None:
    """Compiles a model again with an optimizer that keeps nothing for each weight: quantized ones cannot be trained.

    The optimizer of a training has two values for each weight of the float model, say. Keras would save them, and warn
    that they do not fit when it loads the file.
    """
    config = model.get_compile_config() if model.compiled else None
    if not config:
        return
    config["optimizer"] = keras.saving.serialize_keras_object(keras.optimizers.SGD())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a compile() of the user's own, which is then left alone
        model.compile_from_config(config)
