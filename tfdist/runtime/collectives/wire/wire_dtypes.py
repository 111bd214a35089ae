"""Dtypes on the wire: what an engine carries instead of a dtype that it does not."""

from __future__ import annotations

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.wire.engine import Reduction

NUMBERS = (tf.float64, tf.float32, tf.bfloat16, tf.float16, tf.int32, tf.int64)
"""Dtypes that engines reduce."""

HALVES = (tf.float16, tf.bfloat16)
"""Those of them that are added up in float32 where tfdist adds them."""

_HOLDERS = {tf.int8: tf.int32, tf.int16: tf.int32, tf.uint8: tf.int32, tf.uint16: tf.int32, tf.uint32: tf.int64}
"""Integers that hold others, and whose sums and products have the bits of theirs at the low end."""

_PARTS = {tf.complex64: tf.float32, tf.complex128: tf.float64}

_GATHERED = (tf.float64, tf.float32, tf.float16, tf.int64, tf.int32)
"""Dtypes that TensorFlow's collectives gather and exchange."""

_OF_SAME_BITS = {tf.uint32: tf.int32, tf.uint64: tf.int64}

WORD, LARGEST_WORD = 4, 8
"""Bytes of the integers that bits are carried in; GPUs use the larger alone, as TensorFlow keeps int32 on the host."""

ON_DEVICES = (tf.float64, tf.float32, tf.bfloat16, tf.float16, tf.int64, tf.complex64, tf.complex128)
"""Dtypes whose values go from GPU to GPU: those that NCCL's kernels take, and what is made of them. TensorFlow keeps
int32 in host memory on GPUs, too; for smaller integers it has not all of the kernels that they need there."""

_WORDS = {WORD: tf.int32, LARGEST_WORD: tf.int64}
_SMALL = {1: tf.uint8, 2: tf.uint16, 4: tf.float32}


def check_reducible(dtype: tf.DType, op: str) -> None:
    """Raises where values of a dtype have no such reduction.

    Args:
        dtype: Of the values.
        op: `"mean"` or a `Reduction`.

    Raises:
        UsageError: It is no number; or it is bool, for another reduction than max (any) and min (all); or complex, for
            another than sum and mean; or an integer, for a mean; or uint64, for max and min.
    """
    if op == "mean":
        fits = dtype.is_floating or dtype.is_complex
    elif dtype.is_bool:
        fits = op in ("max", "min")
    elif dtype.is_complex:
        fits = op == "sum"
    elif dtype == tf.uint64:
        fits = op in ("sum", "product")
    else:
        fits = dtype in NUMBERS or dtype in _HOLDERS
    if not fits:
        raise UsageError(
            f"There is no {op} over workers of {dtype.name}: bool has max (any) and min (all), integers have no mean, "
            "complex numbers sum and mean, uint64 sum and product. Received: a value of that dtype. Convert it on "
            "every worker, as with tf.cast(value, tf.float32)."
        )


def to_numbers(values: tf.Tensor, op: Reduction) -> tf.Tensor:
    """Values of any dtype that `check_reducible` lets pass, flat, in one of `NUMBERS`, flat."""
    dtype = values.dtype
    if dtype.is_bool:
        return tf.cast(values, tf.int32)
    if dtype in _HOLDERS:
        return tf.cast(values, _HOLDERS[dtype])
    if dtype == tf.uint64:
        return tf.bitcast(values, tf.int64)
    if dtype in _PARTS:
        return tf.reshape(tf.bitcast(values, _PARTS[dtype]), [-1])
    return values


def from_numbers(numbers: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The values whose `to_numbers` were reduced to `numbers`."""
    if dtype == tf.uint64:
        return tf.bitcast(numbers, dtype)
    if dtype in _PARTS:
        return tf.bitcast(tf.reshape(numbers, [-1, 2]), dtype)
    return tf.cast(numbers, dtype)


def to_gathered(values: tf.Tensor) -> tf.Tensor:
    """Numbers or bools in a dtype that TensorFlow's collectives gather, and that holds each of them.

    The shape stays, with a last axis of 2 behind it for complex numbers.
    """
    if values.dtype.is_complex:
        return tf.stack([tf.math.real(values), tf.math.imag(values)], -1)
    if values.dtype in _OF_SAME_BITS:
        return tf.bitcast(values, _OF_SAME_BITS[values.dtype])
    # What is left has 16 bits or fewer, and all of its values are float32's.
    return values if values.dtype in _GATHERED else tf.cast(values, tf.float32)


def from_gathered(gathered: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The values of a dtype whose `to_gathered` is `gathered`."""
    if dtype.is_complex:
        return tf.complex(*tf.unstack(gathered, 2, -1))
    return tf.bitcast(gathered, dtype) if dtype in _OF_SAME_BITS else tf.cast(gathered, dtype)


def to_bits(table: tf.Tensor, word: int = WORD) -> tf.Tensor:
    """The bits of a table `[rows, columns]` of any fixed size, as `[rows, words]` of int32 or int64.

    Engines copy these bit for bit, and not every other dtype. Rows of smaller elements are padded to whole words.

    Args:
        table: The values.
        word: The fewest bytes of a word, `WORD` or `LARGEST_WORD`.
    """
    size = table.dtype.size
    if word <= size <= LARGEST_WORD:
        return tf.bitcast(table, _WORDS[size])
    rows, columns = table.shape
    if size > LARGEST_WORD:
        return tf.reshape(tf.bitcast(table, tf.int64), [rows, -1])
    each = word // size
    table = tf.cast(table, tf.uint8) if table.dtype.is_bool else table
    if columns is None or columns % each:
        table = tf.pad(tf.bitcast(table, _SMALL[size]), [[0, 0], [0, -tf.shape(table)[1] % each]])
    words = tf.bitcast(tf.reshape(table, [rows, -1, each]), _WORDS[word])
    return tf.ensure_shape(words, [rows, None if columns is None else -(-columns // each)])


def from_bits(words: tf.Tensor, dtype: tf.DType, columns: int | tf.Tensor) -> tf.Tensor:
    """The table `[rows, columns]` of a dtype whose bits are `words`, `[rows, words]`."""
    size = dtype.size
    if size == words.dtype.size:
        return tf.bitcast(words, dtype)
    rows = words.shape[0]
    if size > LARGEST_WORD:
        return tf.bitcast(tf.reshape(words, [rows, -1, size // LARGEST_WORD]), dtype)
    stored = tf.uint8 if dtype.is_bool else dtype
    values = tf.reshape(tf.bitcast(words, stored), [rows, -1])[:, :columns]
    return tf.cast(values, tf.bool) if dtype.is_bool else values
