"""The store of URLs that TensorFlow has a file system for, such as `gs://`.

Bounded calls of TensorFlow's file systems that may go over a network, such as `gs://`.

TensorFlow silently retries a bucket that does not answer for many minutes: ten times for each of the several requests
of one call. Here a call runs in a thread, and the caller waits for it no longer than a bound.
"""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, BinaryIO, TypeVar, cast

import tensorflow as tf

from tfdist.storage.object_store import MOST_WHOLE_BYTES, Content, ObjectStatus

BLOCK_BYTES = 4 << 20
"""Bytes of a file that are read or written at a time."""
T = TypeVar("T")

ANSWER_SECONDS = 120.0
"""Seconds that a caller waits for one call."""

_NUMBERS = {
    tf.errors.DATA_LOSS: errno.EIO,
    tf.errors.NOT_FOUND: errno.ENOENT,
    tf.errors.PERMISSION_DENIED: errno.EACCES,
    tf.errors.UNAUTHENTICATED: errno.EACCES,
    tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC,
    tf.errors.ALREADY_EXISTS: errno.EEXIST,
}


class TensorFlowStore:
    """The store of URLs that `tf.io.gfile` reaches; see `ObjectStore`."""

    def status(self, url: str) -> ObjectStatus:
        """The status of a file."""
        found = bounded_call(url, lambda: tf.io.gfile.stat(url))
        return ObjectStatus(int(found.length), int(found.mtime_nsec))

    def open(self, url: str) -> BinaryIO:
        """Opens a file for reading."""
        return cast(BinaryIO, io.BufferedReader(_Reader(url), BLOCK_BYTES))

    def write(self, url: str, content: Content) -> None:
        """Writes a file, in one call of any length, which the caller waits for with a bound."""
        try:
            with tf.io.gfile.GFile(url, "wb") as target:
                for begin in range(0, len(content), BLOCK_BYTES):
                    target.write(bytes(content[begin : begin + BLOCK_BYTES]))
        except tf.errors.OpError as error:
            raise as_os_error(url, error) from error

    def children(self, url: str) -> list[str]:
        """The names of what lies directly below a URL."""
        try:
            names = bounded_call(url, lambda: tf.io.gfile.listdir(url))
        except FileNotFoundError:
            self.status(url)  # `listdir` raises the same for what it cannot reach
            raise
        return [name.rstrip("/") for name in names]

    def matching(self, pattern: str) -> list[str]:
        """The URLs of files that match a pattern."""
        found: list[str] = bounded_call(pattern, lambda: tf.io.gfile.glob(pattern))
        return found

    def make_folder(self, url: str) -> None:
        """Makes a folder and those above it, where the file system has folders."""
        bounded_call(url, lambda: tf.io.gfile.makedirs(url))

    def remove(self, url: str) -> None:
        """Removes a file."""
        bounded_call(url, lambda: tf.io.gfile.remove(url))

    def remove_below(self, url: str) -> None:
        """Removes a folder and all in it."""
        bounded_call(url, lambda: tf.io.gfile.rmtree(url))


class _Reader(io.RawIOBase):
    """An open file. Each read has a bound in time."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._file = bounded_call(url, lambda: tf.io.gfile.GFile(url, "rb"))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bounded_call(self._url, lambda: self._file.seek(offset, whence))
        return self.tell()

    def tell(self) -> int:
        return int(bounded_call(self._url, self._file.tell))

    def readall(self) -> bytes:
        size = int(bounded_call(self._url, self._file.size))
        if size > MOST_WHOLE_BYTES:
            said = f"its {size:,} bytes are too many to be read as a whole. Expected at most {MOST_WHOLE_BYTES:,}"
            raise OSError(errno.EFBIG, said, self._url)
        content: bytes = bounded_call(self._url, self._file.read)
        return content

    def readinto(self, buffer: Any) -> int:
        block = bounded_call(self._url, lambda: self._file.read(len(buffer)))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def bounded_call(url: str, call: Callable[[], T]) -> T:
    """Calls `call` in a thread and returns its result.

    Args:
        url: The file or folder, for messages.
        call: A call of `tf.io.gfile`. After a timeout it may continue in its thread.

    Raises:
        OSError: The call failed; with the system's number of such a failure, or EREMOTEIO where there is none.
        TimeoutError: There was no answer.
    """
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised by the waiting thread
            answer.set_exception(error)

    threading.Thread(target=run, name="tfdist-remote", daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS)
    except futures.TimeoutError as error:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {ANSWER_SECONDS:g} s", url) from error
    except tf.errors.OpError as error:
        raise as_os_error(url, error) from error


def as_os_error(url: str, error: tf.errors.OpError) -> OSError:
    """The OSError for an error of TensorFlow's."""
    said = " ".join(error.message.split())
    return OSError(_NUMBERS.get(error.error_code, errno.EREMOTEIO), said, url)
