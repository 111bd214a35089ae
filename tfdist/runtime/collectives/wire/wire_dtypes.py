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

_WORD, _LARGEST_WORD = 4, 8
_WORDS = {_WORD: tf.int32, _LARGEST_WORD: tf.int64}
_SMALL = {1: tf.uint8, 2: tf.uint16}


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


def to_bits(table: tf.Tensor) -> tf.Tensor:
    """The bits of a table `[rows, columns]` of any fixed size, as `[rows, words]` of int32 or int64.

    Engines copy these bit for bit, and not every other dtype. Rows of smaller elements are padded to whole words.
    """
    size = table.dtype.size
    if size in _WORDS:
        return tf.bitcast(table, _WORDS[size])
    rows, columns = table.shape
    if size > _LARGEST_WORD:
        return tf.reshape(tf.bitcast(table, tf.int64), [rows, -1])
    each = _WORD // size
    table = tf.cast(table, tf.uint8) if table.dtype.is_bool else table
    if columns is None or columns % each:
        table = tf.pad(tf.bitcast(table, _SMALL[size]), [[0, 0], [0, -tf.shape(table)[1] % each]])
    words = tf.bitcast(tf.reshape(table, [rows, -1, each]), tf.int32)
    return tf.ensure_shape(words, [rows, None if columns is None else -(-columns // each)])


def from_bits(words: tf.Tensor, dtype: tf.DType, columns: int | tf.Tensor) -> tf.Tensor:
    """The table `[rows, columns]` of a dtype whose bits are `words`, `[rows, words]`."""
    size = dtype.size
    if size in _WORDS:
        return tf.bitcast(words, dtype)
    rows = words.shape[0]
    if size > _LARGEST_WORD:
        return tf.bitcast(tf.reshape(words, [rows, -1, size // _LARGEST_WORD]), dtype)
    stored = tf.uint8 if dtype.is_bool else dtype
    values = tf.reshape(tf.bitcast(words, stored), [rows, -1])[:, :columns]
    return tf.cast(values, tf.bool) if dtype.is_bool else values
