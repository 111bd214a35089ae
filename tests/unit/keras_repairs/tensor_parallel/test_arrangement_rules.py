"""Where a slice of a tensor lies in another arrangement of the tensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel.arrangement_rules import _MASKS, _axis_behind, _place


@pytest.mark.parametrize(
    ("before", "axis", "bounds", "after", "expected"),
    [
        ((3, 8), 1, (0, 4, 8), (3, 4, 2), (1, (0, 2, 4))),
        ((3, 8), 1, (0, 4, 8), (3, 2, 2, 2), (1, (0, 1, 2))),
        ((3, 8), 1, (0, 3, 8), (3, 4, 2), None),
        ((3, 4, 2), 1, (0, 2, 4), (3, 8), (1, (0, 4, 8))),
        ((3, 5, 4), 2, (0, 1, 4), (15, 4), (1, (0, 1, 4))),
        ((15, 4), 1, (0, 1, 4), (3, 5, 4), (2, (0, 1, 4))),
        ((8,), 0, (0, 6, 8), (1, 1, 4, 2), (2, (0, 3, 4))),
        ((8,), 0, (0, 6, 8), (1, 8, 1), (1, (0, 6, 8))),
        ((3, 4, 2), 2, (0, 1, 2), (3, 8), None),
        ((4, 6), 1, (0, 3, 6), (6, 4), None),
    ],
)
def test_slices_in_another_shape(before: Any, axis: int, bounds: Any, after: Any, expected: Any) -> None:
    assert _place(list(before), list(after), axis, bounds) == expected
    if expected is None:
        return
    full = np.arange(np.prod(before)).reshape(before)
    for begin, end, start, stop in zip(bounds, bounds[1:], expected[1], expected[1][1:], strict=False):
        own = full.take(range(begin, end), axis)
        shape = [*after]
        shape[expected[0]] = stop - start
        np.testing.assert_array_equal(own.reshape(shape), full.reshape(after).take(range(start, stop), expected[0]))


ALL = slice(None)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((ALL, 1), 1),
        ((ALL, slice(1, 3)), 2),
        ((..., ALL, slice(0, 2)), 2),
        ((ALL, tf.newaxis, 0), 2),
        ((ALL, ALL, ALL, -1), 2),
        ((ALL, ALL, ALL, tf.newaxis), 2),
        ((ALL, ALL, tf.newaxis), 3),
        ((..., 0), 2),
        ((slice(0, 2),), None),
        ((0,), None),
        ((tf.newaxis,), None),
        ((ALL, ALL, slice(0, 2)), None),
        ((ALL, ALL, slice(None, None, 2)), None),
        ((ALL, ALL, 0), None),
    ],
    ids=str,
)
def test_the_axis_behind_some_places(places: Any, expected: int | None) -> None:
    full = np.arange(3 * 4 * 6 * 5).reshape(3, 4, 6, 5)
    with tf.Graph().as_default():
        operation = tf.constant(full)[places].op
        strides = [int(stride) for stride in tf.get_static_value(operation.inputs[3])]
        masks = {name: operation.get_attr(f"{name}_mask") for name in _MASKS}
    part: Any = SimpleNamespace(slice=tf.constant(full[:, :, 1:4]), axis=2)
    assert _axis_behind(part, strides, masks) == expected
    if expected is not None:
        taken = tf.constant(full)[places].numpy().take(range(1, 4), expected)
        np.testing.assert_array_equal(part.slice[places], taken)
