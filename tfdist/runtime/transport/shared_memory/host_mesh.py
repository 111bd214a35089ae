"""A worker's end of the links between the workers of its host: places in shared memory, and who has written what."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.net.host_links import REGION_BYTES, LinkEnds

SLOTS = 4
"""Places for frames of one kind in a worker's region: a worker may write while another one still reads the third frame
before (see `array_exchange`)."""

KINDS = 2
"""What a worker writes: its own part of a frame, and its share of the result."""

_LABEL_BYTES = 4096
FRAME_BYTES = (REGION_BYTES - _LABEL_BYTES) // (KINDS * SLOTS)
"""Bytes of one frame: several fit into the cache of one core."""

_TICK = struct.Struct("<QI")
"""What a worker tells the others: how many times it has told something, and the checksum of what it is in."""


class HostMesh:
    """The links of one worker to all others of its host.

    Args:
        ends: The worker's ends of the links, which this object owns from now on.

    Attributes:
        rank: The worker's place on its host.
        count: Workers of the host.
        frame: Number of the next frame, counted over all exchanges.
    """

    def __init__(self, ends: LinkEnds) -> None:
        self.rank = ends.rank
        self.count = ends.workers
        self.frame = 0
        self._ticks = 0
        self._label = b""
        self._crc = 0
        try:
            self._memory = mmap.mmap(ends.memory, self.count * REGION_BYTES)
        finally:
            os.close(ends.memory)
        regions = np.frombuffer(self._memory, np.uint8).reshape(self.count, REGION_BYTES)
        self._labels = regions[:, :_LABEL_BYTES]
        self._slots = regions[:, _LABEL_BYTES:].reshape(self.count, KINDS, SLOTS, FRAME_BYTES)
        ranks = [peer for peer in self.ranks if peer != ends.rank]
        self._peers = {peer: socket.socket(fileno=fd) for peer, fd in zip(ranks, ends.sockets, strict=True)}
        for end in self._peers.values():
            end.setblocking(True)
            # Programs that the worker starts must not keep a link open when it has ended.
            end.set_inheritable(False)

    @property
    def ranks(self) -> range:
        """The ranks of all workers of the host."""
        return range(self.count)

    def slot(self, rank: int, kind: int, frame: int, dtype: np.dtype) -> NDArray:
        """The place of a worker's frame in the shared memory, as elements of `dtype`."""
        return self._slots[rank, kind, frame % SLOTS].view(dtype)

    def begin(self, label: str) -> None:
        """Begins an exchange, which is the same one on all workers if their labels are equal."""
        self._label = label.encode()[: _LABEL_BYTES - 1]
        self._crc = zlib.crc32(self._label)
        own = self._labels[self.rank]
        own[: len(self._label)] = np.frombuffer(self._label, np.uint8)
        own[len(self._label)] = 0

    def tell(self) -> None:
        """Tells all others that what this worker has written so far can be read."""
        self._ticks += 1
        tick = _TICK.pack(self._ticks, self._crc)
        for peer, end in self._peers.items():
            try:
                end.send(tick)
            except OSError as error:
                raise self._ended(peer) from error

    def wait(self) -> None:
        """Returns when all others have told something once more; the worker's watchdog bounds the waiting.

        Raises:
            WorkerFailedError: One of them has ended.
            UsageError: One of them is in another exchange.
        """
        for peer, end in self._peers.items():
            try:
                tick = end.recv(_TICK.size)
            except OSError as error:
                raise self._ended(peer) from error
            if not tick:
                raise self._ended(peer)
            if _TICK.unpack(tick)[1] != self._crc:
                raise self._differs(peer)

    def close(self) -> None:
        """Hangs up."""
        for end in self._peers.values():
            end.close()

    def _ended(self, peer: int) -> WorkerFailedError:
        return WorkerFailedError(
            f"This worker waited for the others in a collective ({self._label.decode()}), and it broke off: the "
            f"worker of rank {peer} on this host has ended."
        )

    def _differs(self, peer: int) -> UsageError:
        others = self._labels[peer].tobytes().partition(b"\0")[0].decode(errors="replace")
        return UsageError(
            "All workers run the same collectives in the same order, on tensors of one shape and dtype. Received: "
            f"{self._label.decode()} on the worker of rank {self.rank} of this host, and {others} on that of rank "
            f"{peer}. Look for a branch of the program that not all workers take, or for sizes that differ."
        )


def sizes_text(arrays: Sequence[NDArray]) -> str:
    """Dtype and sizes of some arrays, for a label."""
    sizes = [array.size for array in arrays]
    shown = ", ".join(map(str, sizes[:8])) + (f", ... {sum(sizes)} in {len(sizes)} arrays" if len(sizes) > 8 else "")
    return f"{arrays[0].dtype} [{shown}]"
