"""What a script has exported is called as on one device, and also by the layers of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")

X = np.arange(12).reshape(4, 3).astype("float32")


def signature(path: str) -> Callable[[Any], Any]:
    """The default signature of what was exported."""
    loaded = tf.saved_model.load(path)
    serve = loaded.signatures["serving_default"]

    def call(x: Any) -> Any:
        assert loaded is not None, "what is not kept has no variables"
        (value,) = serve(x).values()
        return value

    return call


CALLS: dict[str, Callable[[str], Callable[[Any], Any]]] = {
    "serve": lambda path: tf.saved_model.load(path).serve,
    "within a function": lambda path: tf.function(tf.saved_model.load(path).serve),
    "signature": signature,
    "TFSMLayer": keras.layers.TFSMLayer,
    "TFSMLayer in a model": lambda path: keras.Sequential([keras.Input((3,)), keras.layers.TFSMLayer(path)]).predict,
}


@pytest.mark.parametrize("load", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("layer", [lambda: keras.layers.Dense(2), lambda: keras.layers.Embedding(12, 2)])
def test_what_was_exported_is_called(tmp_path: Path, load: Callable[[str], Any], layer: Callable[[], Any]) -> None:
    with mirrored(3).scope():
        model = keras.Sequential([keras.Input((3,)), layer()])
        expected = model.predict(X, verbose=0)
        model.export(tmp_path / "exported", verbose=False)
        call = load(str(tmp_path / "exported"))
        np.testing.assert_allclose(call(tf.constant(X)), expected, rtol=1e-6)
