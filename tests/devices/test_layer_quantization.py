"""Quantization of single layers: which ones a mode covers, and what a file says of them when Keras loads it again."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.marks import slow
from tfdist.errors import UnsupportedError, UsageError
from tfdist.models import transformer
from tfdist.training.quantization.layer_quantization import KerasMethod, layers_by_name, quantize_layers, weight_bytes
from tfdist.training.quantization.quantized_files import QuantizedFiles

TOKENS = np.random.default_rng(0).integers(0, 9, (5, 6)).astype("int32")


@keras.saving.register_keras_serializable("tests")
class Block(keras.layers.Layer):
    """A layer of a user's own; with `hands_on` it hands its policy to those that it makes."""

    def __init__(self, hands_on: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hands_on = hands_on
        self.inner = keras.layers.Dense(4, name="inner", dtype=self.dtype_policy if hands_on else None)

    def build(self, shape: Any) -> None:
        self.inner.build(shape)

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "hands_on": self.hands_on}


def with_blocks(*hands_on: bool) -> keras.Model:
    blocks = [Block(one, name=f"block_{number}") for number, one in enumerate(hands_on)]
    return keras.Sequential([keras.Input([4]), *blocks])


def files(model: keras.Model, folder: Path, mode: str = "int8") -> QuantizedFiles:
    return QuantizedFiles(model, "the model", KerasMethod(mode), folder)


@pytest.mark.parametrize("mode", ["int8", slow("int4")])
def test_attention_layers_are_loaded_again(mode: str, tmp_path: Path) -> None:
    """Keras leaves their projections out of the file: "expected 2 variables, but received 0"."""
    model = transformer(9, 6, 3, width=8, heads=2, blocks=1)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    made = files(model, tmp_path, mode)
    assert {"multi_head_attention/query", "embedding"} < {re.sub(r"_\d+", "", name) for name in made.names}
    file = made.write(made.names)
    quantized = keras.models.load_model(made.float_file)
    assert quantize_layers(quantized, made.names, KerasMethod(mode)) == set(made.names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = keras.models.load_model(file)
    np.testing.assert_array_equal(loaded.predict(TOKENS, verbose=0), quantized.predict(TOKENS, verbose=0))
    np.testing.assert_allclose(loaded.predict(TOKENS, verbose=0), model.predict(TOKENS, verbose=0), atol=0.2)
    assert weight_bytes(loaded) < weight_bytes(model) / 2


def test_one_layer_alone(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input([4]), *(keras.layers.Dense(3, name=name) for name in "abc")])
    made = files(model, tmp_path)
    loaded = keras.models.load_model(made.write({"b"}))
    assert [layer.quantization_mode for layer in loaded.layers] == [None, "int8", None]


def test_a_layer_of_ones_own_that_hands_its_policy_on(tmp_path: Path) -> None:
    made = files(with_blocks(True, False), tmp_path)
    assert made.names == ("block_0/inner",) and made.unrecordable == ("block_1/inner",)
    loaded = keras.models.load_model(made.write(made.names))
    assert layers_by_name(loaded)["block_0/inner"].quantization_mode == "int8"
    with pytest.raises(UnsupportedError, match=r"block_0/inner are made by layers.*dtype=self.dtype_policy"):
        files(with_blocks(False), tmp_path)


def test_layers_of_one_path_are_told_apart(tmp_path: Path) -> None:
    def submodel() -> keras.Model:
        return keras.Sequential([keras.Input([4]), keras.layers.Dense(4, name="dense")])

    inputs = keras.Input([4])
    made = files(keras.Model(inputs, submodel()(submodel()(inputs))), tmp_path)
    assert made.names == ("dense", "dense:2")
    assert [mode.quantization_mode for mode in dense_layers(made.write({"dense:2"}))] == [None, "int8"]


def dense_layers(file: Path) -> list[keras.layers.Layer]:
    layers = layers_by_name(keras.models.load_model(file))
    return [layer for layer in layers.values() if isinstance(layer, keras.layers.Dense)]


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_equations_for_any_rank_stay_in_float(mode: str, tmp_path: Path) -> None:
    """Keras 3.15 takes the rank of the input for its shape there: "object of type 'int' has no len()"."""
    layers = [keras.layers.EinsumDense("...x,xy->...y", 4, name="any"), keras.layers.Dense(3, name="last")]
    model = keras.Sequential([keras.Input([5, 4]), *layers])
    assert files(model, tmp_path, mode).names == ("last",)
    with pytest.raises(TypeError, match="no len"):
        model.quantize(mode)


def test_models_that_cannot_be_quantized(tmp_path: Path) -> None:
    convolutions = keras.Sequential([keras.Input([4, 4, 1]), keras.layers.Conv2D(2, 3)])
    with pytest.raises(UnsupportedError, match=r"no layer that int8 covers. Expected .*Dense.* Received: Conv2D"):
        files(convolutions, tmp_path)
    made = files(with_blocks(True), tmp_path)
    again = keras.models.load_model(made.write(made.names))
    with pytest.raises(UsageError, match="quantized already: block_0/inner. Expected a float model"):
        files(again, tmp_path)


def test_layers_to_keep(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input([4]), *(keras.layers.Dense(3, name=name) for name in ("a1", "a2", "b"))])
    made = files(model, tmp_path)
    assert made.kept(["a*"]) == {"a1", "a2"}
    with pytest.raises(UsageError, match="no such layer. Expected one of a1, a2, b; .* Received: c"):
        made.kept(["b", "c"])
    with pytest.raises(UsageError, match="names all layers that could be quantized"):
        made.kept(["*"])
