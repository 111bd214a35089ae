"""A path on a file system that TensorFlow reaches by a URL, as far as checkpoints need one.

TensorFlow tries a bucket that does not answer again and again, for many minutes and without a word: ten times for each
of several requests that one call makes. So a call is waited for in a thread, for a bounded time.
"""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow as tf

from tfdist.checkpoint.draft import Content

T = TypeVar("T")

ANSWER_SECONDS = 120.0
"""How long one call is waited for. A file of any size is written in one: for that, whoever waits has a bound."""

_BLOCK = 4 << 20

_NUMBERS = {
    tf.errors.DATA_LOSS: errno.EIO,
    tf.errors.NOT_FOUND: errno.ENOENT,
    tf.errors.PERMISSION_DENIED: errno.EACCES,
    tf.errors.UNAUTHENTICATED: errno.EACCES,
    tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC,
    tf.errors.ALREADY_EXISTS: errno.EEXIST,
}


@dataclass(frozen=True)
class Status:
    """What is known of a file.

    Attributes:
        st_size: Its bytes.
    """

    st_size: int


class RemotePath:
    """Of `pathlib.Path` what checkpoints need, by `tf.io.gfile`. Its errors are `OSError`, as those of a local path.

    Args:
        url: Such as `gs://bucket/folder`.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self._url.rpartition("/")[2]

    def exists(self) -> bool:
        """Whether there is such a file."""
        return bool(_asked(self, lambda: tf.io.gfile.exists(self._url)))

    def stat(self) -> Status:
        """Its size."""
        return Status(_asked(self, lambda: tf.io.gfile.stat(self._url).length))

    def iterdir(self) -> Iterator[RemotePath]:
        """What lies in it."""
        try:
            names = _asked(self, lambda: tf.io.gfile.listdir(self._url))
        except FileNotFoundError:
            self.stat()  # `listdir` says so of what it cannot reach, too
            raise
        return iter([self / name.rstrip("/") for name in names])

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """The file, to be read as bytes."""
        return io.BufferedReader(_Reader(self), _BLOCK)

    def read_bytes(self) -> bytes:
        """What is in the file."""
        with self.open() as content:
            return content.read()

    def write_bytes(self, content: Content) -> None:
        """Makes or replaces the file, however long that takes."""
        try:
            with tf.io.gfile.GFile(self._url, "wb") as target:
                for begin in range(0, len(content), _BLOCK):
                    target.write(bytes(content[begin : begin + _BLOCK]))
        except tf.errors.OpError as error:
            raise _as_os_error(self, error) from error

    def mkdir(self) -> None:
        """Makes it a directory, with those above it, where the file system has such."""
        _asked(self, lambda: tf.io.gfile.makedirs(self._url))

    def unlink(self) -> None:
        """Removes the file."""
        _asked(self, lambda: tf.io.gfile.remove(self._url))

    def rmtree(self) -> None:
        """Removes the directory and all that is in it."""
        _asked(self, lambda: tf.io.gfile.rmtree(self._url))


class _Reader(io.RawIOBase):
    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self._path = path
        self._file = tf.io.gfile.GFile(str(path), "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = _asked(self._path, lambda: self._file.read(len(buffer)))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._file.close()
        super().close()


def _asked(path: RemotePath, call: Callable[[], T]) -> T:
    """What a call returns; its errors are `OSError`, and `TimeoutError` where there is no answer."""
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # the one who waits raises it
            answer.set_exception(error)

    threading.Thread(target=run, name="tfdist-remote", daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS)
    except futures.TimeoutError as error:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {ANSWER_SECONDS:g} s", str(path)) from error
    except tf.errors.OpError as error:
        raise _as_os_error(path, error) from error


def _as_os_error(path: RemotePath, error: tf.errors.OpError) -> OSError:
    said = " ".join(error.message.split())
    return OSError(_NUMBERS.get(error.error_code, errno.EREMOTEIO), said, str(path))
