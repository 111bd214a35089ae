"""Reads variables of which every replica has its own value, and restores them on any number of replicas."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.workers import local_replicas

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class ReplicaCopies:
    """A variable, or the replicas' variables behind one.

    Attributes:
        copies: This worker's, in the order of its replicas.
        adds_up: Whether the replicas' values are parts of a sum; otherwise each replica's own version of the whole.
        is_saved: Whether the value of the chief's first replica is saved elsewhere.
    """

    copies: tuple[tf.Variable, ...]
    adds_up: bool
    is_saved: bool = False


def read(parts: Mapping[str, ReplicaCopies], strategy: tf.distribute.Strategy) -> dict[str, np.ndarray]:
    """The values of all replicas; all workers call this together.

    Args:
        parts: The same names, shapes and dtypes on every worker.
        strategy: The strategy in force.

    Returns:
        Name -> array [replicas, ...], or [1, ...] where replicas hold the same and it does not add up; without those
        that are the same and saved elsewhere.
    """
    mine = {name: np.stack([copy.numpy() for copy in part.copies]) for name, part in parts.items()}
    apart = _differing(mine, strategy)
    sent = [name for name, part in parts.items() if part.adds_up or apart[name]]
    gathered = _gather({name: mine[name] for name in sent}, strategy)
    return {name: gathered.get(name, mine[name][:1]) for name in parts if name in gathered or not parts[name].is_saved}


def write(
    values: Mapping[str, np.ndarray], parts: Mapping[str, ReplicaCopies], strategy: tf.distribute.Strategy
) -> None:
    """Restores what `read` returned, with as many replicas or another number; on every worker.

    With another number of replicas, the first gets the sum of what adds up and the others zero; anything else is given
    to all replicas as the first had it.

    Args:
        values: Values of at least those `parts` that are not saved elsewhere.
        parts: The variables.
        strategy: The strategy in force.

    Raises:
        ValueError: A value is missing or has another shape than its variable.
    """
    mine = local_replicas(strategy)
    for name, part in parts.items():
        if name not in values:
            if part.is_saved:
                continue
            raise ValueError(f"{name} is missing")
        rows = _as_dtype(values[name], part.copies[0].dtype.as_numpy_dtype)
        if rows.shape[1:] != tuple(part.copies[0].shape):
            raise ValueError(f"{name} has the shape {rows.shape[1:]}, expected {tuple(part.copies[0].shape)}")
        for replica, copy in zip(mine, part.copies, strict=True):
            copy.assign(_row(rows, replica, strategy.num_replicas_in_sync, part.adds_up))


def _row(rows: np.ndarray, replica: int, replicas: int, adds_up: bool) -> np.ndarray:
    if len(rows) == replicas:
        return rows[replica]
    if not adds_up:
        return rows[0]
    return rows.sum(axis=0, dtype=rows.dtype) if replica == 0 else np.zeros_like(rows[0])


def _as_dtype(array: np.ndarray, dtype: type) -> np.ndarray:
    """NumPy's files hold bfloat16 as two plain bytes."""
    return array.view(dtype) if array.dtype.kind == "V" else array


def _differing(mine: Mapping[str, np.ndarray], strategy: tf.distribute.Strategy) -> dict[str, bool]:
    """Returns whether each value differs between the replicas, by digests, which are small."""
    if not mine:
        return {}
    digests = np.array([[_digest(row) for row in rows] for rows in mine.values()], np.uint8)
    everywhere = np.concatenate(list(all_gather(digests, strategy)), axis=1)
    return dict(zip(mine, (everywhere != everywhere[:, :1]).any(axis=(1, 2)).tolist(), strict=True))


def _digest(row: np.ndarray) -> np.ndarray:
    content = np.ascontiguousarray(row).tobytes()
    return np.frombuffer(hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest(), np.uint8)


def _gather(mine: Mapping[str, np.ndarray], strategy: tf.distribute.Strategy) -> dict[str, np.ndarray]:
    """Arrays [replicas of this worker, ...] -> [all replicas, ...], sent together, in pieces of bounded size."""
    content = np.frombuffer(b"".join(rows.tobytes() for rows in mine.values()), np.uint8)
    pieces = [
        all_gather(content[start : start + PIECE_BYTES], strategy) for start in range(0, len(content), PIECE_BYTES)
    ]
    received = np.concatenate(pieces, axis=1) if pieces else np.zeros((1, 0), np.uint8)
    gathered: dict[str, np.ndarray] = {}
    start = 0
    for name, rows in mine.items():
        bytes_of = received[:, start : start + rows.nbytes]
        gathered[name] = np.frombuffer(bytes_of.tobytes(), rows.dtype).reshape(-1, *rows.shape[1:])
        start += rows.nbytes
    return gathered
