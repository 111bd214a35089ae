"""Exchanges contents of any size between workers, by sums of integers alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import UsageError

_HEAD = struct.Struct("<Iq")
_HEAD_BYTES = 64
"""Each worker first sends the kind and size of its content, and as much of it as fits in here. So workers that disagree
find out, where sums of two sizes would wait for each other."""

_ROOM = _HEAD_BYTES - _HEAD.size
_REST_BYTES = 256
"""The rest is padded to a multiple of this, as TensorFlow keeps some memory for each size of sum."""


@dataclass(frozen=True)
class ObjectExchange:
    """One worker's end of exchanges between all workers.

    Attributes:
        worker: Its index.
        workers: How many there are.
        add_up: Sums an int32 array over the workers, which all call it with one shape.
    """

    worker: int
    workers: int
    add_up: Callable[[NDArray[np.int32]], NDArray[np.int32]]

    def __call__(self, content: bytes, kind: str) -> list[bytes]:
        """The contents of all workers, in their order; the sizes may differ. Every worker calls it.

        Raises:
            UsageError: Another worker's content is of another `kind`.
        """
        first = content[:_ROOM]
        heads = self._rows(_HEAD.pack(zlib.crc32(kind.encode()), len(content)) + first, _HEAD_BYTES)
        kinds, sizes = zip(*(_HEAD.unpack_from(head) for head in heads), strict=True)
        self._check_kinds(kinds, kind)
        said = [head[_HEAD.size : _HEAD.size + size].tobytes() for head, size in zip(heads, sizes, strict=True)]
        left = max(sizes) - _ROOM
        if left <= 0:
            return said
        rests = self._rows(memoryview(content)[_ROOM:], -(-left // _REST_BYTES) * _REST_BYTES)
        ends = (max(size - _ROOM, 0) for size in sizes)
        return [b"".join((start, rest[:end])) for start, rest, end in zip(said, rests, ends, strict=True)]

    def _rows(self, content: bytes | memoryview, size: int) -> NDArray[np.uint8]:
        """The bytes of each worker, padded to `size`, in one row each.

        A sum in which each worker fills its own row and all other summands are zero copies bits, of integers.
        """
        rows = np.zeros((self.workers, size), np.uint8)
        rows[self.worker, : len(content)] = np.frombuffer(content, np.uint8)
        return self.add_up(rows.view(np.int32)).view(np.uint8)

    def _check_kinds(self, kinds: Sequence[int], own: str) -> None:
        """Raises where kinds differ: bits of one dtype read as another would be other numbers."""
        others = [str(worker) for worker, kind in enumerate(kinds) if kind != kinds[self.worker]]
        if others:
            raise UsageError(
                f"Workers exchange arrays of one shape and dtype. Received: {own} on worker {self.worker}, and another "
                f"on {', '.join(others)}. Convert the value on every worker, as with float(value) or "
                "numpy.asarray(value, 'float32'), and pad shorter arrays, as with numpy.pad; or look for a branch of "
                "the program that not all workers take."
            )
