"""Arrays and tensors in host memory of which one takes the memory of the other."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.collectives.array_all_gather import as_array, as_tensor, empty_for_tensor

DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool", "complex64"]


def filled(size: int, dtype: str) -> np.ndarray:
    array = empty_for_tensor(size, np.dtype(tf.as_dtype(dtype).as_numpy_dtype))
    array[:] = (np.arange(size) % 3).astype(array.dtype)
    return array


@pytest.mark.parametrize("dtype", DTYPES)
def test_neither_is_a_copy(dtype: str) -> None:
    array = filled(24, dtype).reshape(2, 12)
    tensor = as_tensor(array)
    assert (tensor.dtype, tuple(tensor.shape)) == (tf.as_dtype(dtype), (2, 12))
    found = as_array(tensor)
    assert found.dtype == array.dtype and not found.flags.writeable
    np.testing.assert_array_equal(found, array)
    assert np.shares_memory(found.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", [slice(1, 4), slice(0, 0), slice(5, 5), slice(0, 9, 2)], ids=str)
def test_what_tensorflow_cannot_take_is_copied(dtype: str, part: slice) -> None:
    """It would end the process for memory that is not aligned as its vector instructions want it."""
    array = filled(24, dtype)[part]
    np.testing.assert_array_equal(as_tensor(array).numpy(), array)
    array = filled(24, dtype)
    array.flags.writeable = False
    np.testing.assert_array_equal(as_tensor(array).numpy(), array)


def test_what_lies_elsewhere_is_asked_for_its_numbers() -> None:
    """As what stands for a variable on a disk."""

    class Stored:
        def numpy(self) -> np.ndarray:
            return np.ones(3)

    np.testing.assert_array_equal(as_array(Stored()), np.ones(3))


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_a_variable_changes_and_the_array_does_not(shape: tuple[int, ...]) -> None:
    variable = tf.Variable(tf.ones(shape))
    found = as_array(variable)
    variable.assign_add(tf.ones(shape))
    np.testing.assert_array_equal(found, np.ones(shape))
