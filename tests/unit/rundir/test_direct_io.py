"""A file that is written past the page cache has the right bytes, whatever its file system can do."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.disks import files_of_at_most, small_disk
from tfdist.rundir.direct_io import ALIGNMENT, write_uncached

LARGE = 5 * ALIGNMENT + 77


def write(path: Path, content: bytes | memoryview, smallest: int = 2 * ALIGNMENT) -> None:
    write_uncached(path, content, smallest=smallest, block=2 * ALIGNMENT)


def memory(size: int, shift: int = 0) -> memoryview:
    """`size` bytes, each different from its neighbours, that begin `shift` bytes after an aligned address."""
    pages = mmap.mmap(-1, size + shift + 1)
    content = memoryview(pages)[shift : shift + size]
    content[:] = bytes(place % 251 for place in range(size))
    return content


def is_cached(path: Path) -> bool:
    """Whether the first page of a file is in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.mark.parametrize("shift", [0, 1, 512])
@pytest.mark.parametrize(
    "size", [0, 1, ALIGNMENT, 2 * ALIGNMENT - 1, 2 * ALIGNMENT, 2 * ALIGNMENT + 1, 4 * ALIGNMENT, LARGE]
)
def test_it_has_all_bytes(size: int, shift: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what was there before" * 9)
    write(path, memory(size, shift))
    assert path.read_bytes() == memory(size)
    write(path, bytes(memory(size)))
    assert path.read_bytes() == memory(size)


def test_large_content_bypasses_the_page_cache(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "try", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
        (tmp_path / "try").write_bytes(b"content")
        assert is_cached(tmp_path / "try")
    except (OSError, AssertionError):
        pytest.skip("this file system has no cache, or none that can be bypassed")
    write(tmp_path / "past", memory(4 * ALIGNMENT))
    if is_cached(tmp_path / "past"):
        pytest.skip("this file system lies in memory")
    write(tmp_path / "through", memory(4 * ALIGNMENT), smallest=4 * ALIGNMENT + 1)
    assert is_cached(tmp_path / "through")


def test_a_file_system_without_direct_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no O_DIRECT here")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    write(tmp_path / "file", memory(LARGE))
    assert (tmp_path / "file").read_bytes() == memory(LARGE)


@pytest.mark.parametrize("taken", [0, 100, ALIGNMENT, ALIGNMENT + 1])
def test_a_file_system_that_wants_other_sizes(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call writes a part or nothing, and calls that are not aligned are refused."""
    written, calls = os.write, []

    def write_some(descriptor: int, content: memoryview) -> int:
        is_direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
        calls.append(is_direct)
        if is_direct and (len(calls) > 1 or not taken):
            raise OSError(errno.EINVAL, "not aligned")
        if is_direct:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
            count = written(descriptor, content[:taken])
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
            return count
        return written(descriptor, content)

    try:
        os.close(os.open(tmp_path / "try", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no O_DIRECT")
    monkeypatch.setattr(os, "write", write_some)
    write(tmp_path / "file", memory(LARGE))
    assert (tmp_path / "file").read_bytes() == memory(LARGE)
    assert calls[0] and not calls[-1]


def test_other_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "absent" / "file", memory(LARGE))
    for size in (0, 1, ALIGNMENT, 4 * ALIGNMENT, LARGE - 1):
        with files_of_at_most(size), pytest.raises(OSError, match="File too large"):
            write(tmp_path / "file", memory(LARGE))

    def refuse(descriptor: int, content: memoryview) -> int:
        raise OSError(errno.EINVAL, "never")

    monkeypatch.setattr(os, "write", refuse)
    for size in (10, LARGE):
        with pytest.raises(OSError, match="never"):
            write(tmp_path / "file", memory(size))


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16k") as disk, pytest.raises(OSError, match="No space left") as caught:
        write(disk / "file", memory(LARGE))
    assert caught.value.errno == errno.ENOSPC
