"""The shards of workers that do not reach the chief's folder, sent to the chief piece by piece."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tensorflow as tf

from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.checkpoint.shards.shard_file_names import shard_file_name
from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.workers import worker_count, worker_rank


def send_shards(
    content: memoryview, folder: Path | None, strategy: tf.distribute.Strategy
) -> dict[int, FileDigest] | OSError:
    """Sends the shards of all other workers to the chief, which writes them; all workers call it together.

    Args:
        content: This worker's shard.
        folder: On the chief, where they go.
        strategy: The strategy in force.

    Returns:
        On the chief, worker -> the digest of its file, or why they cannot be written. Nothing elsewhere.
    """
    workers, is_chief = worker_count(strategy), worker_rank(strategy) == 0
    sizes = [int(size) for size in all_gather(np.int64(len(content)), strategy)]
    files = [_ShardFile(folder / shard_file_name(w, workers)) for w in range(1, workers)] if is_chief and folder else []
    piece = max(1 << 16, PIECE_BYTES // workers)
    with contextlib.ExitStack() as closing:
        for file in files:
            closing.callback(file.close)
        for start in range(0, max(sizes[1:], default=0), piece):
            length = min(piece, max(sizes[1:]) - start)
            mine = np.zeros(length, np.uint8)
            own = content[start : start + length] if not is_chief else content[:0]
            mine[: len(own)] = own
            rows = all_gather(mine, strategy)
            for file, row, size in zip(files, rows[1:], sizes[1:], strict=False):
                file.add(row[: max(0, min(length, size - start))])
    failed = next((file.error for file in files if file.error is not None), None)
    return failed or {worker: file.digest for worker, file in enumerate(files, 1)}


class _ShardFile:
    """A file that grows; after an error it takes what comes, and writes no more: the other workers go on sending."""

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self._size = self._checksum = 0
        self._file: BinaryIO | None = None
        try:
            self._file = path.open("wb")
        except OSError as error:
            self.error = error

    @property
    def digest(self) -> FileDigest:
        return FileDigest(self._size, self._checksum)

    def add(self, content: np.ndarray) -> None:
        if self._file is None or self.error is not None:
            return
        try:
            self._file.write(content.data)
        except OSError as error:
            self.error = error
        self._size += len(content)
        self._checksum = zlib.crc32(content.data, self._checksum)

    def close(self) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self.error = self.error or error
