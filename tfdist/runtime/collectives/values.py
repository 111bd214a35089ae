"""Values that workers exchange: tensors, numpy arrays, and nests of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError

_EXPECTED = (
    "Workers exchange tensors, arrays of numbers or texts, and lists, tuples and dicts of these. Received: {received}, "
    "which is not such a value. {remedy}"
)
_ARRAY = "Give a number or an array on every worker, even where its value does not matter."
_OBJECT = "For other Python values there are tfdist.all_gather_object and tfdist.broadcast_object."


@dataclass(frozen=True)
class Leaf:
    """One tensor of a value.

    Attributes:
        tensor: Its values; of texts and their like their bytes, uint8, in one more axis.
        array: The dtype of the array that it was, or that it is to become; None for a tensor.
    """

    tensor: tf.Tensor
    array: np.dtype[Any] | None = None

    @property
    def is_bytes(self) -> bool:
        """True if the tensor has the bytes of elements that TensorFlow has no dtype for."""
        return self.array is not None and _tensor_dtype(self.array) is None

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return str(self.array) if self.array is not None and self.is_bytes else self.tensor.dtype.name

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its static shape, of rank that is known."""
        shape = tuple(self.tensor.shape)
        return shape[:-1] if self.is_bytes else shape

    def restore(self, tensor: tf.Tensor) -> Any:
        """A result of the same dtype as the caller is to get it: an array for an array."""
        if self.array is None or not tf.executing_eagerly():
            return tensor
        array = tensor.numpy()
        if not self.is_bytes:
            return array if isinstance(array, np.ndarray) else np.asarray(array)
        return np.ascontiguousarray(array).view(self.array)[..., 0]


@dataclass(frozen=True)
class Values:
    """A value as its leaves.

    Attributes:
        structure: The nest that they were in, with anything in their places.
        leaves: In the order of `tf.nest`.
    """

    structure: Any
    leaves: tuple[Leaf, ...]

    def pack(self, results: Sequence[Any]) -> Any:
        """The nest with one result in the place of each leaf."""
        return tf.nest.pack_sequence_as(self.structure, list(results))


def values_of(value: Any) -> Values:
    """The leaves of a value: of a nest, or of one array, tensor or number.

    Lists and tuples of numbers alone are one array each, as numpy takes them. Arrays are copied: TensorFlow shares no
    memory with them.

    Args:
        value: A tensor, array, number, or a nest of these; a `tf.TensorSpec` stands for zeros.

    Raises:
        UsageError: It is none of these.
    """
    if _is_plain(value):
        value = np.asarray(value)
    leaves = tf.nest.flatten(value)
    if not leaves:
        raise UsageError(_EXPECTED.format(received=f"an empty {type(value).__name__}", remedy=_ARRAY))
    return Values(value, tuple(_leaf(leaf) for leaf in leaves))


def _is_plain(value: Any) -> bool:
    """Returns whether it is a number or text, or lists and tuples of these alone."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return all(_is_plain(part) for part in value)
    return isinstance(value, (int, float, complex, str, bytes, np.generic))


def _leaf(value: Any) -> Leaf:
    if isinstance(value, tf.TensorSpec):
        if not value.shape.is_fully_defined():
            raise UsageError(f"A tf.TensorSpec that stands for a value has a whole shape. Received: {value}")
        return Leaf(tf.zeros(value.shape, value.dtype))
    if isinstance(value, tf.Tensor | tf.Variable) or hasattr(value, "__tf_tensor__"):
        return Leaf(_checked(tf.convert_to_tensor(value)))
    if isinstance(value, tf.__internal__.CompositeTensor):
        raise UsageError(
            _EXPECTED.format(received=f"a {type(value).__name__}", remedy="Use tf.convert_to_tensor(value).")
        )
    if value is None or not (isinstance(value, np.ndarray) or _is_plain(value)):
        raise UsageError(_EXPECTED.format(received=f"a {type(value).__name__}", remedy=f"{_ARRAY} {_OBJECT}"))
    return _leaf_of_array(np.asarray(value), value)


def _leaf_of_array(array: np.ndarray[Any, Any], value: Any) -> Leaf:
    if array.dtype.hasobject:
        raise UsageError(_EXPECTED.format(received=f"a {type(value).__name__}", remedy=f"{_ARRAY} {_OBJECT}"))
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    if _tensor_dtype(array.dtype) is not None:
        return Leaf(tf.convert_to_tensor(array), array.dtype)
    if not tf.executing_eagerly():
        raise UsageError(
            f"A tf.function exchanges tensors and arrays of numbers. Received: an array of {array.dtype}. Exchange it "
            "outside of the function."
        )
    content = np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, array.dtype.itemsize)
    return Leaf(tf.convert_to_tensor(content), array.dtype)


def _checked(tensor: tf.Tensor) -> tf.Tensor:
    if tensor.dtype.size == 0 or tensor.dtype.is_quantized or tensor.dtype in (tf.resource, tf.variant, tf.string):
        raise UsageError(
            _EXPECTED.format(
                received=f"a tensor of {tensor.dtype.name}", remedy="Texts are exchanged as numpy arrays: text.numpy()."
            )
        )
    if tensor.shape.rank is None:
        raise UsageError(
            "Workers exchange tensors of a rank that is known. Received: one of any shape. Give the tf.function an "
            "input_signature, or use tf.ensure_shape(value, [None, ...])."
        )
    return tensor


def _tensor_dtype(dtype: np.dtype[Any]) -> tf.DType | None:
    """TensorFlow's dtype for elements of an array; None where it has none that has their size."""
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        return None
    return found if found.size == dtype.itemsize and found not in (tf.string, tf.resource, tf.variant) else None


def accumulated(leaf: Leaf, op: str) -> Leaf:
    """The leaf in the dtype of its reduction, as numpy's; a tensor keeps its own.

    Raises:
        UsageError: It is an array of texts or their like.
    """
    if leaf.array is None:
        return leaf
    if leaf.is_bytes:
        raise UsageError(
            f"There is no {op} of {leaf.dtype} over workers. Expected numbers. Use tfdist.all_gather, as it "
            "takes texts."
        )
    dtype = _dtype(leaf.array, op)
    if dtype == leaf.array:
        return leaf
    return dataclasses.replace(leaf, tensor=tf.cast(leaf.tensor, dtype), array=dtype)


def _dtype(dtype: np.dtype[np.generic], op: str) -> np.dtype[np.generic]:
    if dtype.kind not in "biu" or op in ("max", "min"):
        return dtype
    return np.dtype(np.float64) if op == "mean" else np.zeros(1, dtype).sum().dtype
