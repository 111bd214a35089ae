"""Footers of Parquet files, read by another process first: some that are damaged end the process that reads them."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdist.bounded_process import run
from tfdist.data.files.remote_files import stamp_of
from tfdist.errors import DataError

_SECONDS = 60.0
"""Seconds that the look at the footers may take; after that, files are read without."""

_FATAL = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL)
"""Signals that end a process that looks at such a footer; the last, where it takes all memory."""

_SCRIPT = """
import os, sys
import pyarrow.parquet

def tried(look):
    # Whoever reads the file next says what is wrong with it; here it must not hide what comes after it.
    try:
        return look()
    except Exception:
        return None

def look_at(chunk):
    for name in ("path_in_schema", "total_compressed_size", "total_uncompressed_size"):
        tried(lambda: getattr(chunk, name))
    tried(lambda: chunk.is_stats_set and chunk.statistics.has_null_count and chunk.statistics.null_count)

def look_in(file):
    tried(lambda: file.schema_arrow)
    for number in range(file.metadata.num_row_groups):
        group = tried(lambda: file.metadata.row_group(number))
        for place in range(group.num_columns if group is not None else 0):
            chunk = tried(lambda: group.column(place))
            if chunk is not None:
                look_at(chunk)

for number, path in enumerate(sys.stdin.buffer.read().split(b"\\0")):
    print(number, flush=True)
    file = tried(lambda: pyarrow.parquet.ParquetFile(os.fsdecode(path)))
    if file is not None:
        tried(lambda: look_in(file))
        tried(file.close)
"""
"""Looks at all of the footers that tfdist does; says the place of each before."""


def check_footers(paths: Sequence[Path]) -> None:
    """Looks whether the footers of files can be read by this process at all.

    Raises:
        DataError: That of a file would end it.
    """
    found = _fatal_footer(tuple(map(str, paths)), tuple(stamp_of(str(path)) for path in paths))
    if found is not None:
        raise fatal_error(*found)


def fatal_footers(paths: Sequence[Path]) -> dict[str, str]:
    """All files whose footers would end this process -> by which signal."""
    found: dict[str, str] = {}
    left = [str(path) for path in paths if path.is_file()]
    while left and (fatal := _fatal_footer(tuple(left), tuple(map(stamp_of, left)))) is not None:
        path, name = fatal
        found[path] = name
        left = left[left.index(path) + 1 :]
    return found


def fatal_error(path: str, name: str) -> DataError:
    """The error of a file whose footer ends a process by a signal."""
    return DataError(
        f"{path} cannot be read as a Parquet file: its footer is damaged, and ends the process that reads it ({name}). "
        "Write or copy the file again."
    )


@functools.lru_cache(maxsize=16)
def _fatal_footer(paths: tuple[str, ...], stamps: tuple[Any, ...]) -> tuple[str, str] | None:
    """The first file whose footer ends a process, and by which signal; asked once as long as the files are the same."""
    listed = os.memfd_create("tfdist-footers")
    try:
        with open(listed, "wb", closefd=False) as stream:
            stream.write(b"\0".join(map(os.fsencode, paths)))
        os.lseek(listed, 0, os.SEEK_SET)
        done = run([sys.executable, "-P", "-c", _SCRIPT], _SECONDS, stdin=listed)
    except OSError:
        return None  # no further process can be started here
    finally:
        os.close(listed)
    said = done.out.split()
    if done.code is None or -done.code not in _FATAL or not said:
        return None
    return paths[int(said[-1])], signal.Signals(-done.code).name
