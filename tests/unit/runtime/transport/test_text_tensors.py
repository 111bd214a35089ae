from __future__ import annotations

import pytest
import tensorflow as tf

from tfdist.runtime.transport.text_tensors import from_bytes, to_bytes


@pytest.mark.parametrize(
    "texts",
    [
        tf.constant("one"),
        tf.constant(""),
        tf.constant([["a", "\u00e9"], [b"\xff\0\0", b""]]),
        tf.constant(["x" * 100_000, "y"]),
        tf.zeros([0, 2], tf.string),
    ],
    ids=lambda texts: str(texts.shape),
)
def test_texts_of_any_bytes_come_back(texts: tf.Tensor) -> None:
    content = to_bytes(texts)
    assert isinstance(content, bytes)
    found = from_bytes(content, texts.shape)
    assert (found.dtype, found.shape) == (tf.string, texts.shape)
    assert found.numpy().tolist() == texts.numpy().tolist() if texts.shape.rank else found.numpy() == texts.numpy()
