from __future__ import annotations

import textwrap

import pytest

from tfdist.plan.random_calls import random_calls


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return tf.io.decode_raw(record, tf.uint8)", []),
        ("return tf.image.random_flip_left_right(record)", [("tensorflow.image.random_flip_left_right", 8)]),
        ("return tf.image.stateless_random_flip_left_right(record, seed=(1, 2))", []),
        ("return tf.random.normal([2]) + tf.random.stateless_normal([2], (1, 2))", [("tensorflow.random.normal", 8)]),
        ("return np.random.default_rng().random()", [("numpy.random.default_rng", 8)]),
        ("return np.random.default_rng(7).random()", []),
        ("return np.random.RandomState(seed=record).rand()", []),
        ("return np.random.default_rng(np.random.rand())", [("numpy.random.rand", 8)]),
        ("return draw() + random()", [("numpy.random.rand", 8), ("random.random", 8)]),
        ("return helper(record)", [("keras.random.uniform", 11)]),
        ("return Model.parse(record)", [("random.random", 15)]),
        ("return one(record)", []),  # names itself
    ],
)
def test_calls_in_a_function(body: str, expected: list[tuple[str, int]]) -> None:
    source = textwrap.dedent(
        f"""\
        import tensorflow as tf
        import numpy as np
        import keras
        from random import random
        from numpy.random import rand as draw

        def one(record):
            {body}

        def helper(record):
            return keras.random.uniform([2])

        class Model:
            def parse(record):
                return random()
        """
    )
    assert random_calls(source, "one") == expected


@pytest.mark.parametrize("source", ["def one(:", "x = 1", "\0"])
def test_what_is_no_such_function_has_none(source: str) -> None:
    assert random_calls(source, "one") == []
