"""Checkpoints on a file system that TensorFlow reaches by a URL, such as `gs://bucket/run`.

An object store knows no rename and no flush: a file is there as a whole once it is closed, and a directory is but a
part of names. So files are written to where they stay, and the marker, which comes last, is what makes a checkpoint
whole.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.checkpoint import files
from tfdist.checkpoint.draft import Content, Draft
from tfdist.rundir import atomic

_BLOCK = 4 << 20

_NUMBERS = {
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
        with _told_as_os_errors(self):
            return bool(tf.io.gfile.exists(self._url))

    def stat(self) -> Status:
        """Its size."""
        with _told_as_os_errors(self):
            return Status(tf.io.gfile.stat(self._url).length)

    def iterdir(self) -> Iterator[RemotePath]:
        """What lies in it."""
        with _told_as_os_errors(self):
            return iter([self / name.rstrip("/") for name in tf.io.gfile.listdir(self._url)])

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """The file, to be read as bytes."""
        return io.BufferedReader(_Reader(self), _BLOCK)

    def read_bytes(self) -> bytes:
        """What is in the file."""
        with self.open() as content:
            return content.read()

    def write_bytes(self, content: Content) -> None:
        """Makes or replaces the file."""
        with _told_as_os_errors(self), tf.io.gfile.GFile(self._url, "wb") as target:
            for begin in range(0, len(content), _BLOCK):
                target.write(bytes(content[begin : begin + _BLOCK]))

    def mkdir(self) -> None:
        """Makes it a directory, with those above it, where the file system has such."""
        with _told_as_os_errors(self):
            tf.io.gfile.makedirs(self._url)

    def unlink(self) -> None:
        """Removes the file."""
        with _told_as_os_errors(self):
            tf.io.gfile.remove(self._url)

    def rmtree(self) -> None:
        """Removes the directory and all that is in it."""
        with _told_as_os_errors(self):
            tf.io.gfile.rmtree(self._url)


class RemoteStore:
    """The checkpoints in a folder that has a URL. One process writes into it.

    Attributes:
        folder: The folder.
    """

    def __init__(self, url: str) -> None:
        self.folder = RemotePath(url)

    def stored(self) -> list[files.Stored]:
        """Those that there are, the latest first; whether they are whole is not looked at."""
        return files.stored(self.folder)

    @contextlib.contextmanager
    def writing(self, step: int) -> Iterator[Draft]:
        """Yields an empty checkpoint; it is the latest of `step` at a clean exit.

        Raises:
            RunDirError: It cannot be written.
        """
        target = self.folder / files.free_name(self.stored(), step)
        draft = Draft(lambda name, content: (target / name).write_bytes(content))
        try:
            target.mkdir()
            yield draft
            (target / files.MARKER).write_bytes((json.dumps(draft.marker(), indent=2) + "\n").encode())
        except BaseException as error:
            with contextlib.suppress(OSError):  # the next start removes it
                target.rmtree()
            if isinstance(error, OSError):
                raise atomic.write_error(str(self.folder), error) from error
            raise

    def remove(self, checkpoint: files.Stored) -> None:
        """Removes one, its marker first."""
        with contextlib.suppress(OSError):  # what cannot be removed now is tried again with the next one
            if checkpoint.is_marked:
                (checkpoint.path / files.MARKER).unlink()
            checkpoint.path.rmtree()

    def remove_unfinished(self) -> None:
        """Removes what a writer that was killed has left behind."""
        for checkpoint in self.stored():
            if not checkpoint.is_marked:
                self.remove(checkpoint)


class _Reader(io.RawIOBase):
    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self._path = path
        self._file = tf.io.gfile.GFile(str(path), "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _told_as_os_errors(self._path):
            block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _told_as_os_errors(path: RemotePath) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(_NUMBERS.get(error.error_code, errno.EIO), error.message, str(path)) from error
