"""HDF5 on a disk that fails at any byte: an error for Python, and a process that lives."""

from __future__ import annotations

import io
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.disks import files_of_at_most
from tfdist.keras_repairs.unfailing_file import UnfailingFile


def write(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as content:
        for number in range(40):
            group = content.create_group(f"layers/dense_{number}/vars")
            group.attrs["name"] = f"dense_{number}"
            group["0"] = np.full((7, number + 1), number, np.float32)


def test_it_has_the_bytes_of_any_other_file(tmp_path: Path) -> None:
    file, memory = UnfailingFile(tmp_path / "file"), io.BytesIO()
    write(file)
    file.check()
    file.close()
    file.close()
    write(memory)
    assert (tmp_path / "file").read_bytes() == memory.getvalue()


def test_no_error_of_the_disk_reaches_hdf5(tmp_path: Path) -> None:
    memory = io.BytesIO()
    write(memory)
    for size in (0, 1, 500, 2048, 5000, 20_000, 77_777, len(memory.getvalue()) - 1):
        file = UnfailingFile(tmp_path / "file")
        with files_of_at_most(size):
            write(file)  # raises nothing
        with pytest.raises(OSError, match="File too large"):
            file.check()
        file.close()
        assert (tmp_path / "file").stat().st_size <= size


def test_what_the_disk_did_not_take_is_read_again(tmp_path: Path) -> None:
    file = UnfailingFile(tmp_path / "file")
    with files_of_at_most(4):
        file.write(b"0123456789")
        file.seek(8)
        file.write(b"ABC")
    into = bytearray(20)
    file.seek(2)
    assert file.readinto(into) == 9
    assert bytes(into[:9]) == b"234567ABC"
    assert (file.tell(), file.seek(0, os.SEEK_END), file.seek(-1, os.SEEK_CUR)) == (11, 11, 10)
    file.close()
