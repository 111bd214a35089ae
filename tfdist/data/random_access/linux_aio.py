"""Many small reads in one call of the system, without Python's lock: Linux's asynchronous input and output (AIO).

One `os.pread` for each record would release and take Python's lock for each, which slows down all threads of Python
(numbers in docs/speed.md). Linux takes a list of reads, and carries out those of files that are opened as usual one
after another within the call: see io_submit(2). A request has the layout of `struct iocb` in linux/aio_abi.h.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import sys
import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_READS = 1024
"""Reads in one call. All processes of a machine may have some 65,000 together (/proc/sys/fs/aio-max-nr)."""

_REQUEST = np.dtype(
    [
        ("data", "u8"),
        ("key", "u4"),
        ("rw_flags", "i4"),
        ("opcode", "u2"),
        ("priority", "i2"),
        ("descriptor", "u4"),
        ("buffer", "u8"),
        ("size", "u8"),
        ("offset", "i8"),
        ("reserved", "u8"),
        ("flags", "u4"),
        ("event_descriptor", "u4"),
    ]
)
_EVENT = np.dtype([("data", "u8"), ("request", "u8"), ("result", "i8"), ("second_result", "i8")])
_PREAD = 0
"""The opcode of a read."""


class _Calls(NamedTuple):
    """The numbers of the system calls, for which the C library has no functions."""

    setup: int
    destroy: int
    getevents: int
    submit: int


_OF_MACHINE = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}


class AioReader:
    """Reads up to MAX_READS places of open files in one call. Safe to use from several threads.

    Raises:
        OSError: The system has no such calls, or allows no more of them.
    """

    def __init__(self) -> None:
        self._free = [_Context.open()]
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._free)

    @classmethod
    def if_possible(cls) -> AioReader | None:
        """A reader; None where the system does not have such calls, or allows no more of them."""
        try:
            return cls()
        except OSError:
            return None

    def read(
        self,
        descriptors: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        into: NDArray[np.uint8],
    ) -> bool:
        """Reads places of files, one after another.

        Args:
            descriptors: The descriptor of each place's file, [k]; k is at most MAX_READS.
            offsets: Where to begin in each, [k].
            sizes: Bytes to read of each, [k].
            into: The memory that is filled without gaps: contiguous, at least as long as the sizes together.

        Returns:
            Whether all could be read. Else `into` holds anything.
        """
        try:
            context = self._take()
        except OSError:
            return False
        try:
            whole = context.carry_out(descriptors, offsets, sizes, into.ctypes.data + np.cumsum(sizes) - sizes)
        except OSError:
            context.close()
            return False
        with self._lock:
            self._free.append(context)
        return whole

    def _take(self) -> _Context:
        """A context that no other thread uses."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return _Context.open()


class _Context(NamedTuple):
    """The system's place for requests and their results."""

    number: int
    calls: _Calls
    requests: NDArray
    places: NDArray[np.uint64]

    @classmethod
    def open(cls) -> _Context:
        calls = _OF_MACHINE.get(platform.machine())
        if sys.platform != "linux" or sys.byteorder != "little" or calls is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        number = ctypes.c_ulong(0)
        if _system()(ctypes.c_long(calls.setup), ctypes.c_long(MAX_READS), ctypes.byref(number)) < 0:
            raise _last_error()
        requests = np.zeros(MAX_READS, _REQUEST)
        requests["opcode"] = _PREAD
        places = requests.ctypes.data + np.arange(MAX_READS, dtype=np.uint64) * np.uint64(_REQUEST.itemsize)
        return cls(number.value, calls, requests, places)

    def carry_out(
        self,
        descriptors: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        addresses: NDArray[np.int64],
    ) -> bool:
        """Carries out reads, and returns whether all was read. No request is under way afterwards.

        Raises:
            OSError: Requests are under way, and only `close` ends them.
        """
        count = len(sizes)
        requests = self.requests[:count]
        requests["descriptor"], requests["offset"], requests["buffer"] = descriptors, offsets, addresses
        requests["size"] = requests["data"] = sizes
        accepted = self._call(self.calls.submit, ctypes.c_long(count), _pointer(self.places))
        events = np.empty(max(accepted, 0), _EVENT)
        done = 0
        while done < accepted:
            left = ctypes.c_long(accepted - done)
            came = self._call(self.calls.getevents, left, left, _pointer(events[done:]), None)
            if came < 0 and ctypes.get_errno() != errno.EINTR:
                raise _last_error()
            done += max(came, 0)
        return accepted == count and bool((events["result"] == events["data"]).all())

    def close(self) -> None:
        """Waits for requests that are under way, and returns the context to the system."""
        self._call(self.calls.destroy)

    def _call(self, number: int, *args: object) -> int:
        return _system()(ctypes.c_long(number), ctypes.c_ulong(self.number), *args)


def _close_all(contexts: list[_Context]) -> None:
    for context in contexts:
        context.close()


def _pointer(array: NDArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _last_error() -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@functools.cache
def _system() -> Callable[..., int]:
    """syscall(2) of the C library: from a call's number and arguments to its result, or -1 and the errno of ctypes."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call
