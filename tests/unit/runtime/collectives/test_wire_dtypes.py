"""Values travel between workers with all that they hold, whatever their dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.collectives.wire import wire_dtypes


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
        ("float8_e5m2", [1.25, -3.5]),
        ("float64", [1 / 3]),
    ],
)
def test_values_of_each_dtype_are_gathered(dtype: str, values: list[Any]) -> None:
    rows = tf.constant(np.array([values]).T.astype(tf.as_dtype(dtype).as_numpy_dtype))
    gathered = wire_dtypes.to_gathered(rows)
    assert gathered.dtype in wire_dtypes._GATHERED
    received = wire_dtypes.from_gathered(gathered, rows.dtype)
    assert received.dtype == rows.dtype
    np.testing.assert_array_equal(received.numpy(), rows.numpy())
