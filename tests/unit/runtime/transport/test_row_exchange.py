"""Rows travel between workers with all that they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.transport import row_exchange


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("complex64", [1 + 2j, -3.5j]),
        ("complex128", [1 + (1 / 3) * 1j, -1e-300j]),
        ("uint32", [0, (1 << 32) - 1, (1 << 24) + 1]),
        ("uint64", [0, (1 << 64) - 1, (1 << 53) + 1]),
        ("int64", [-(1 << 63), (1 << 53) + 1]),
        ("int16", [-(1 << 15), (1 << 15) - 1]),
        ("uint16", [(1 << 16) - 1]),
        ("uint8", [255]),
        ("bool", [True, False]),
        ("bfloat16", [1.0078125, -3e38]),
        ("float64", [1 / 3]),
    ],
)
def test_values_of_each_dtype_are_carried(dtype: str, values: list[Any]) -> None:
    rows = tf.constant(np.array([values]).T.astype(tf.as_dtype(dtype).as_numpy_dtype))
    carried = row_exchange._carried(rows)
    assert carried.dtype in row_exchange._CARRIED
    received = row_exchange._received(carried, rows.dtype)
    assert received.dtype == rows.dtype
    np.testing.assert_array_equal(received.numpy(), rows.numpy())
