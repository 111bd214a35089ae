from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

from tfdist.keras_repairs.model_checks.sent_rows import noted_calls, sent_rows
from tfdist.plan.memory.step_sizes import SentRows


def sent(build: Callable[[Any], Any], shape: tuple[int, ...], cut: dict[str, int], dtype: str = "float32") -> Any:
    """What layers send, by their names, of 10 samples; `cut` has the axes of their kernels."""
    with tf.Graph().as_default(), tf.name_scope("planned"):
        inputs = keras.Input(shape, dtype=dtype)
        model = keras.Model(inputs, build(inputs))
        with noted_calls() as calls:
            model(tf.compat.v1.placeholder(dtype, (10, *shape)))
        by_name = {layer.name: layer for layer in (call.layer for call in calls)}
        found = sent_rows(calls, {id(by_name[name]): axis for name, axis in cut.items()})
        return {name: found[id(by_name[name])] for name in cut}


def feed_forward(x: Any) -> Any:
    return layers.Dense(5, name="down")(layers.Dense(7, "gelu", name="up")(layers.Dense(3, name="first")(x)))


def test_products_by_columns_and_by_rows() -> None:
    found = sent(feed_forward, (4,), {"first": 1, "up": 1, "down": 0})
    # Of the data no gradient is computed; between the last two nothing is sent.
    assert found == {"first": SentRows(160, 0), "up": SentRows(240, 0), "down": SentRows(400, 0)}


def test_rows_that_are_not_cut_alike_are_dealt() -> None:
    def normalized(x: Any) -> Any:
        return layers.Dense(5, name="down")(layers.LayerNormalization()(layers.Dense(7, name="up")(x)))

    assert sent(normalized, (4,), {"up": 1, "down": 0})["down"] == SentRows(400, 560)
    assert sent(normalized, (4,), {"down": 0})["down"] == SentRows(400, 560)


def test_projections_of_attention_share_rows() -> None:
    names = {"query": 1, "key": 1, "value": 1, "attention_output": 0}

    def attention(x: Any) -> Any:
        hidden = layers.Dense(6)(x)
        return layers.MultiHeadAttention(2, 3)(hidden, hidden)

    found = sent(attention, (5, 4), names)
    sums = sum(found[name].whole for name in ("query", "key", "value"))
    assert sums == 2 * 10 * 5 * 6 * 4 and found["attention_output"] == SentRows(2 * 10 * 5 * 6 * 4, 0)


@pytest.mark.parametrize(("axis", "expected"), [(0, SentRows(240 + 2 * 1920, 0)), (1, SentRows(240, 2 * 1920))])
def test_tables(axis: int, expected: SentRows) -> None:
    found = sent(lambda x: layers.Embedding(50, 8, name="table")(x), (6,), {"table": axis}, "int32")
    assert found["table"] == expected


def test_convolutions() -> None:
    found = sent(lambda x: layers.Conv1D(3, 2, padding="same", name="wide")(x), (6, 4), {"wide": 2})
    assert found["wide"] == SentRows(960, 0)


def test_what_a_worker_sends_of_rows() -> None:
    assert SentRows(100, 0).sent_among(2) == 100 and SentRows(100, 30).sent_among(3) == 200 + 20
