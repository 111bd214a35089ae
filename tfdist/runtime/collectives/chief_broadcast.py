"""Copies files and variables of the chief to the other workers, in pieces, without a shared file system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.rundir.regular_files import open_regular
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.stores.object_stores import path_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.worker_sums import sum_over_workers
from tfdist.runtime.workers import worker_rank
from tfdist.storage.object_path import ObjectPath
from tfdist.url_schemes import is_url

PIECE_BYTES = 4 << 20
"""Size of one collective, which bounds the memory that a copy takes."""


def file_from_chief(source: str | Path, target: Path, strategy: tf.distribute.Strategy) -> bool:
    """Copies a file of the chief to every worker, including the chief.

    Args:
        source: Its path on the chief, or a URL; see `tfdist.runtime.stores.object_stores`.
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
