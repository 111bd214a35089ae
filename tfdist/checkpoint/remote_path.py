"""Path on a file system that TensorFlow reaches by a URL, with what checkpoints need of `pathlib.Path`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.checkpoint.pending_checkpoint import FileContent
from tfdist.runtime.remote_file_calls import as_os_error, bounded_call

BLOCK_BYTES = 4 << 20
"""Bytes of a file that are read or written at a time."""


@dataclass(frozen=True)
class RemoteFileStatus:
    """The status of a file.

    Attributes:
        st_size: Its bytes.
    """

    st_size: int


class RemotePath:
    """A path for `tf.io.gfile`. Its errors are `OSError`, as those of a local path.

    Args:
        url: The URL, such as `gs://bucket/folder`.
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
        return bool(bounded_call(self._url, lambda: tf.io.gfile.exists(self._url)))

    def stat(self) -> RemoteFileStatus:
        """Its size."""
        return RemoteFileStatus(bounded_call(self._url, lambda: tf.io.gfile.stat(self._url).length))

    def iterdir(self) -> Iterator[RemotePath]:
        """The entries of the directory."""
        try:
            names = bounded_call(self._url, lambda: tf.io.gfile.listdir(self._url))
        except FileNotFoundError:
            self.stat()  # `listdir` raises the same for what it cannot reach
            raise
        return iter([self / name.rstrip("/") for name in names])

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Opens the file for reading bytes."""
        return io.BufferedReader(_Reader(self), BLOCK_BYTES)

    def read_bytes(self) -> bytes:
        """The content of the file."""
        with self.open() as content:
            return content.read()

    def write_bytes(self, content: FileContent) -> None:
        """Writes the file, in one call of any length, which the caller waits for with a bound."""
        try:
            with tf.io.gfile.GFile(self._url, "wb") as target:
                for begin in range(0, len(content), BLOCK_BYTES):
                    target.write(bytes(content[begin : begin + BLOCK_BYTES]))
        except tf.errors.OpError as error:
            raise as_os_error(self._url, error) from error

    def mkdir(self) -> None:
        """Makes the directory and those above it, where the file system has directories."""
        bounded_call(self._url, lambda: tf.io.gfile.makedirs(self._url))

    def unlink(self) -> None:
        """Removes the file."""
        bounded_call(self._url, lambda: tf.io.gfile.remove(self._url))

    def rmtree(self) -> None:
        """Removes the directory and all in it."""
        bounded_call(self._url, lambda: tf.io.gfile.rmtree(self._url))


class _Reader(io.RawIOBase):
    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self._path = path
        self._file = tf.io.gfile.GFile(str(path), "rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bounded_call(str(self._path), lambda: self._file.seek(offset, whence))
        return self.tell()

    def tell(self) -> int:
        return int(bounded_call(str(self._path), self._file.tell))

    def readinto(self, buffer: Any) -> int:
        block = bounded_call(str(self._path), lambda: self._file.read(len(buffer)))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._file.close()
        super().close()
