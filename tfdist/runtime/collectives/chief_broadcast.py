"""Copies files and variables of the chief to the other workers, in pieces, without a shared file system."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError, UsageError
from tfdist.rundir.regular_files import open_regular
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.object_stores import path_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.object_exchange import ObjectExchange
from tfdist.runtime.transport.text_tensors import from_bytes, to_bytes
from tfdist.runtime.transport.worker_sums import sum_over_workers
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.storage.object_path import ObjectPath
from tfdist.url_schemes import is_url

PIECE_BYTES = 4 << 20
"""Size of one collective, which bounds the memory that a copy takes."""


def file_from_chief(source: str | Path, target: Path, strategy: tf.distribute.Strategy) -> bool:
    """Copies a file of the chief to every worker, including the chief.

    Args:
        source: Its path on the chief, or a URL; see `tfdist.runtime.object_stores`.
        target: The path of the copy, local to each worker.
        strategy: The strategy in force; all its workers call this together.

    Returns:
        Whether the chief has such a file, the same on every worker. Without one nothing is written.
    """
    is_chief = worker_rank(strategy) == 0
    place = path_of(source) if isinstance(source, str) and is_url(source) else Path(source)
    found = is_chief and place.exists()  # the other workers need not reach it
    with _opened(place) if found else contextlib.nullcontext() as opened:
        return opened_file_from_chief(opened, target, strategy)


def _opened(place: Path | ObjectPath) -> BinaryIO:
    return open_regular(place, follows_link=True) if isinstance(place, Path) else place.open("rb")


def opened_file_from_chief(source: BinaryIO | None, target: Path, strategy: tf.distribute.Strategy) -> bool:
    """As `file_from_chief`, of a file that the chief has opened; None where there is none, and on the others."""
    size = int(broadcast(np.int64(-1 if source is None else source.seek(0, os.SEEK_END)), strategy=strategy))
    if size < 0:
        return False
    if source is not None:
        source.seek(0)
    with target.open("wb") as copy:
        for start in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - start)
            copy.write(bytes_from_chief(bytes(length) if source is None else source.read(length), strategy))
    return True


def variables_from_chief(variables: Sequence[Any], strategy: tf.distribute.Strategy) -> None:
    """Gives Keras variables the chief's values, on every worker; all call this together."""
    is_chief = worker_rank(strategy) == 0
    for variable in variables:
        value = array_from_chief(np.asarray(variable.numpy()), strategy)
        if not is_chief:
            variable.assign(value)


def array_from_chief(array: NDArray, strategy: tf.distribute.Strategy) -> NDArray:
    """The chief's array, on every worker; the others give one of the same shape and dtype, which is ignored."""
    return np.frombuffer(_in_pieces(array.tobytes(), strategy), array.dtype).reshape(array.shape)


def text_from_chief(text: str, strategy: tf.distribute.Strategy) -> str:
    """The chief's text, on every worker; the others' texts are ignored."""
    return content_from_chief(text.encode(), strategy).decode()


def content_from_chief(content: bytes, strategy: tf.distribute.Strategy) -> bytes:
    """The chief's bytes, however many, on every worker; those of the others are ignored."""
    size = int(broadcast(np.int64(len(content)), strategy=strategy))
    return _in_pieces(content[:size].ljust(size, b"\0"), strategy)


def _in_pieces(content: bytes, strategy: tf.distribute.Strategy) -> bytes:
    pieces = (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))
    return b"".join(bytes_from_chief(piece, strategy) for piece in pieces)


def bytes_from_chief(content: bytes, strategy: tf.distribute.Strategy) -> bytes:
    """The chief's bytes, on every worker; the others give as many of their own, which are ignored."""
    memory = settings_of(strategy).memory
    if memory is not None:
        (copy,) = memory.of_functions.copy([tf.constant(np.frombuffer(content, np.uint8))])
        return copy.numpy().tobytes()
    words = np.zeros(-(-len(content) // 4), np.int32)
    if worker_rank(strategy) == 0:
        words = np.frombuffer(content.ljust(4 * len(words), b"\0"), np.int32)

    # A sum in which all but one summand are zero copies bits.
    return sum_over_workers(words, strategy).tobytes()[: len(content)]


_BROADCAST = (tf.bool, tf.float32, tf.float16, tf.float64, tf.int32, tf.int64)
"""The dtypes that TensorFlow broadcasts."""


def is_taken(value: tf.Tensor, name: str, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether `value_from_chief` takes a value of a variable, and not TensorFlow; the same on all workers.

    It takes numbers and texts, outside of functions: all of them where all workers share memory, elsewhere those of
    dtypes that TensorFlow does not broadcast, such as bfloat16.

    Raises:
        UnsupportedError: Nobody takes it: it is made in a function, of a dtype that TensorFlow does not broadcast.
    """
    if worker_count(strategy) == 1:
        return False
    dtype = value.dtype
    is_better = settings_of(strategy).memory is not None or dtype not in _BROADCAST
    if not tf.executing_eagerly():
        _check_broadcast(dtype, name)
        return False
    has_numbers = dtype.is_bool or dtype.is_integer or dtype.is_floating or dtype.is_complex
    return is_better and (has_numbers or dtype == tf.string)


def value_from_chief(value: tf.Tensor, name: str, strategy: tf.distribute.Strategy) -> tf.Tensor:
    """The chief's value of a variable, on every worker; all call this together.

    Args:
        value: This worker's, which `is_taken`; of one shape and dtype on all workers.
        name: The variable's.
        strategy: The strategy in force.

    Raises:
        UsageError: The shape or the dtype is another one on another worker.
        WorkerFailedError: Another worker has ended.
    """
    _check_alike(_said_by_all(f"{value.dtype.name} {value.shape}", strategy), name)
    if value.dtype == tf.string:
        return from_bytes(content_from_chief(to_bytes(value), strategy), value.shape)
    memory = settings_of(strategy).memory
    if memory is None:
        return tf.constant(array_from_chief(value.numpy(), strategy))
    (copy,) = memory.of_functions.copy([tf.reshape(value, [-1])])
    return tf.reshape(copy, value.shape)


def first_values_of_all(
    said: str, dtype: str, shape: Sequence[int], name: str, strategy: tf.distribute.Strategy
) -> list[str]:
    """What each worker says of how it makes the first value of a variable; all call this together.

    Args:
        said: What this one says.
        dtype: Of the variable.
        shape: Of the variable.
        name: The variable's.
        strategy: The strategy in force.

    Raises:
        UsageError: The dtype or the shape is another one on another worker.
        WorkerFailedError: Another worker has ended.
    """
    of_all = [each.partition("|") for each in _said_by_all(f"{dtype} {tuple(shape)}|{said}", strategy)]
    _check_alike([described for described, _, _ in of_all], name)
    return [each for _, _, each in of_all]


def _check_broadcast(dtype: tf.DType, name: str) -> None:
    if dtype not in _BROADCAST:
        raise UnsupportedError(
            "In a tf.function TensorFlow gives all workers the chief's initial values, and has no broadcast of "
            f"{dtype.name}. Received: the variable '{name}' of that dtype, which a function makes. Make it before the "
            "function runs, outside of it, or give it one of the dtypes "
            f"{', '.join(sorted(each.name for each in _BROADCAST))}."
        )


def _said_by_all(said: str, strategy: tf.distribute.Strategy) -> list[str]:
    add_up = functools.partial(sum_over_workers, strategy=strategy)
    exchange = ObjectExchange(worker_rank(strategy), worker_count(strategy), add_up)
    return [each.decode() for each in exchange(said.encode(), "initial value of a variable")]


def _check_alike(described: list[str], name: str) -> None:
    if len(set(described)) > 1:
        received = ", ".join(f"{each} on worker {worker}" for worker, each in enumerate(described))
        raise UsageError(
            "All workers make the same variables in the same order, each of one shape and dtype. Received: the initial "
            f"value of '{name}', as this worker names it, of {received}. Look for sizes that depend on the worker, "
            "such as those of its part of the data, or for a branch of the program that not all workers take."
        )
