"""A file of weights that lies in shards, read as the one file that it is."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from tfdist import bounded_json
from tfdist.checkpoint.checkpoint_files import WEIGHTS, StoredPath, opened
from tfdist.rundir.regular_files import MOST_JSON_BYTES
from tfdist.sharding.file_shards import FileShards

SHARD_TABLE = "weights.parts.json"
"""The file that says which bytes of the file of weights are in which file: `tfdist.sharding.file_shards.FileShards`."""

REST = "weights.rest"
"""All bytes of the file of weights that workers do not share: its structure and small values."""


def shard_file_name(worker: int, workers: int) -> str:
    """The file with the shard of a worker."""
    return f"weights.worker-{worker}-of-{workers}"


Opener = Callable[[int | None], BinaryIO]


class ShardedFile(io.BytesIO):
    """Reads what is asked for, of the files that have it, which are opened when they are needed.

    It is an `io.BytesIO` in type only, because Keras loads weights from one or from a path; as a text it is the path.

    Args:
        path: That of the whole, which is not there.
        shards: Where its bytes are.
        opener: Opens the file of a worker; that of the rest for None.
    """

    def __init__(self, path: str, shards: FileShards, opener: Opener) -> None:
        super().__init__()
        self._path = path
        self._shards = shards
        self._size = shards.size
        self._opener = opener
        self._files: dict[int | None, BinaryIO] = {}
        self._closing = contextlib.ExitStack()
        self._place = 0

    def __str__(self) -> str:
        return self._path

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence] + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._place)
        found = bytearray(left if size is None or size < 0 else min(size, left))
        self.readinto(found)
        return bytes(found)

    def readinto(self, buffer: Any) -> int:
        into = np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
        end = min(self._size, self._place + len(into))
        done = 0
        while self._place < end:
            segment = self._shards.at(self._place)
            start = self._place - segment.begin
            size = min(segment.size - start, end - self._place)
            self._read_whole(segment.worker, segment.offset + start, into[done : done + size].data)
            done, self._place = done + size, self._place + size
        return done

    def getvalue(self) -> bytes:
        """Not for a file that may be larger than memory."""
        raise io.UnsupportedOperation("getvalue")

    def close(self) -> None:
        self._closing.close()
        super().close()

    def _read_whole(self, worker: int | None, offset: int, into: memoryview) -> None:
        if worker not in self._files:
            self._files[worker] = self._closing.enter_context(self._opener(worker))
        file = self._files[worker]
        file.seek(offset)
        done = 0
        while done < len(into):
            count: int = file.readinto(into[done:])  # type: ignore[attr-defined]
            if not count:
                raise OSError(f"{os.path.dirname(self._path)}: a part of {os.path.basename(self._path)} is cut short")
            done += count


def opened_weights(folder: StoredPath) -> BinaryIO:
    """Opens the file of weights of a checkpoint for reading bytes, whether it lies there whole or in shards.

    Raises:
        OSError: It cannot be opened, or is none.
        ValueError: What says where its shards are is damaged.
    """
    try:
        with opened(folder / SHARD_TABLE) as file:
            content = file.read(MOST_JSON_BYTES + 1)
    except FileNotFoundError:
        return opened(folder / WEIGHTS)
    try:
        shards = FileShards.from_dict(bounded_json.parse(content, MOST_JSON_BYTES))
    except ValueError as error:
        raise ValueError(f"{SHARD_TABLE} is damaged: {error}") from None

    def open_shard(worker: int | None) -> BinaryIO:
        name = REST if worker is None else shard_file_name(worker, shards.workers)
        file = opened(folder / name)
        size, expected = file.seek(0, os.SEEK_END), shards.rest_size if worker is None else shards.shard_size(worker)
        if size != expected:
            file.close()
            raise ValueError(f"{name} has {size:,} bytes instead of {expected:,}")
        return file

    # A table may claim more bytes than there are: readers compare what they are to take with the size of the file.
    for worker in (None, *range(shards.workers)):
        open_shard(worker).close()
    return ShardedFile(str(folder / WEIGHTS), shards, open_shard)


def has_sharded_weights(folder: StoredPath) -> bool:
    """Returns whether the file of weights of a checkpoint lies in shards."""
    return (folder / SHARD_TABLE).exists()
