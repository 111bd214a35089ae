"""A worker's end of the links between the workers of its host: places in shared memory, and who has written what."""

from __future__ import annotations

import functools
import mmap
import os
import socket
import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import TfdistError, UsageError, WorkerFailedError
from tfdist.net.host_links import LinkEnds

SLOTS = 4
"""Places for frames of one kind in a worker's region: a worker may write while another one still reads the third frame
before (see `array_exchange`)."""

KINDS = 2
"""The number of kinds that a worker writes: its own part of a frame, and its share of the result."""

_LABEL_BYTES = 4096

_TICK = struct.Struct("<QI")
"""The message of a worker to the others: how many times it has told something, and the checksum of what it is in."""

_MOST_SIZES = 8
"""Of those that a label names."""


class Contract(NamedTuple):
    """The contract of an exchange: what all workers must have the same in it.

    Attributes:
        label: What it is, in words.
        checksum: Of all that must be the same.
        text: The label as the others find it in memory, with its end; uint8.
    """

    label: str
    checksum: int
    text: NDArray


@functools.lru_cache(maxsize=256)
def contract_of(call: str, dtype: np.dtype, sizes: tuple[int, ...] | None = None) -> Contract:
    """The contract of an exchange of arrays. A training asks for the same few again in every step.

    Args:
        call: What is done with them.
        dtype: Theirs.
        sizes: Theirs, in order; None where they may differ.
    """
    label = f"{call} {dtype}"
    if sizes is not None:
        shown = ", ".join(map(str, sizes[:_MOST_SIZES]))
        rest = f", ... {sum(sizes)} in {len(sizes)} arrays" if len(sizes) > _MOST_SIZES else ""
        label += f" [{shown}{rest}]"
    text = np.frombuffer(label.encode()[: _LABEL_BYTES - 1] + b"\0", np.uint8)
    return Contract(label, zlib.crc32(f"{call} {dtype} {sizes}".encode()), text)


class HostMesh:
    """The links of one worker to all others of its host.

    Args:
        ends: The worker's ends of the links, which this object owns from now on.

    Attributes:
        rank: The worker's place on its host.
        count: Workers of the host.
        frame_bytes: Bytes of one frame, by the size of the memory: several fit into the cache of one core.
        frame: Number of the next frame, counted over all exchanges.
    """

    def __init__(self, ends: LinkEnds) -> None:
        self.rank = ends.rank
        self.count = len(ends.linked)
        self.frame = 0
        self._workers = ends.linked
        self._told = 0
        self._contract = contract_of("nothing", np.dtype(np.uint8))
        self._broken: TfdistError | None = None
        try:
            self._memory = mmap.mmap(ends.memory, 0)
        finally:
            os.close(ends.memory)
        regions = np.frombuffer(self._memory, np.uint8).reshape(self.count, -1)
        self._labels = regions[:, :_LABEL_BYTES]
        self._slots = regions[:, _LABEL_BYTES:].reshape(self.count, KINDS, SLOTS, -1)
        self.frame_bytes = self._slots.shape[-1]
        # To make a view costs more than to look it up.
        self._views: dict[tuple[int, int, int, np.dtype], NDArray] = {}
        ranks = [peer for peer in self.ranks if peer != self.rank]
        self._peers = {peer: socket.socket(fileno=fd) for peer, fd in zip(ranks, ends.sockets, strict=True)}
        self._heard = dict.fromkeys(ranks, 0)
        for end in self._peers.values():
            end.setblocking(True)
            # Programs that the worker starts must not keep a link open when it has ended. What it only forks does: then
            # the launcher, which sees the worker's end itself, ends the others.
            end.set_inheritable(False)

    @property
    def ranks(self) -> range:
        """The ranks of all workers of the host."""
        return range(self.count)

    def slot(self, rank: int, kind: int, frame: int, dtype: np.dtype) -> NDArray:
        """The place of a worker's frame in the shared memory, as elements of `dtype`."""
        key = (rank, kind, frame % SLOTS, dtype)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._slots[rank, kind, frame % SLOTS].view(dtype)
        return view

    def begin(self, contract: Contract) -> None:
        """Begins an exchange.

        Raises:
            TfdistError: An earlier one broke off: workers are at different places since.
        """
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        if contract is not self._contract:
            self._contract = contract
            self._labels[self.rank, : contract.text.size] = contract.text

    def tell(self) -> None:
        """Tells all others that what this worker has written so far can be read.

        Raises:
            WorkerFailedError: One of them has ended.
        """
        self._told += 1
        tick = _TICK.pack(self._told, self._contract.checksum)
        for peer, end in self._peers.items():
            try:
                end.send(tick, socket.MSG_NOSIGNAL)
            except OSError as error:
                raise self._breaks(self._ended(peer, error)) from error

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
                raise self._breaks(self._ended(peer, error)) from error
            if not tick:
                raise self._breaks(self._ended(peer))
            self._heard[peer] += 1
            if _TICK.unpack(tick) != (self._heard[peer], self._contract.checksum):
                raise self._breaks(self._differs(peer))

    def close(self) -> None:
        """Hangs up."""
        for end in self._peers.values():
            end.close()

    def _breaks(self, error: TfdistError) -> TfdistError:
        self._broken = error
        return error

    def _ended(self, peer: int, error: OSError | None = None) -> WorkerFailedError:
        worker = f"worker {self._workers[peer]}"
        has_ended = error is None or isinstance(error, ConnectionError)
        why = f"{worker} has ended" if has_ended else f"the link to {worker} fails: {error}"
        return WorkerFailedError(
            f"This worker waited for the others in a collective ({self._contract.label}), and it broke off: {why}."
        )

    def _differs(self, peer: int) -> UsageError:
        others = self._labels[peer].tobytes().partition(b"\0")[0].decode(errors="replace")
        return UsageError(
            "All workers run the same collectives in the same order, on tensors of one shape and dtype. Received: "
            f"{self._contract.label} on worker {self._workers[self.rank]}, and {others} on worker "
            f"{self._workers[peer]}. Look for a branch of the program that not all workers take, or for sizes that "
            "differ."
        )
