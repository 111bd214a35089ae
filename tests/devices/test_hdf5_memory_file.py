"""A file in memory is to HDF5 as any other file."""

from __future__ import annotations

import io
import os

import h5py
import numpy as np
import pytest

from tfdist.keras_repairs.files.hdf5_files import MemoryFile
from tfdist.rundir.direct_io import ALIGNMENT


def write(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as content:
        for number in range(40):
            group = content.create_group(f"layers/dense_{number}/vars")
            group.attrs["name"] = f"dense_{number}"
            group["0"] = np.full((7, number + 1), number, np.float32)


@pytest.mark.parametrize("room", [0, 5000, 1 << 20])
def test_it_has_the_bytes_of_any_other_file(room: int) -> None:
    file, expected = MemoryFile(room), io.BytesIO()
    write(file)
    write(expected)
    assert file.content.tobytes() == expected.getvalue()
    assert file.content.ctypes.data % ALIGNMENT == 0


def test_it_moves_as_any_other_file() -> None:
    file, expected = MemoryFile(4), io.BytesIO()
    for other in (file, expected):
        assert other.write(b"0123456789") == 10
        assert other.seek(14) == 14
        assert other.write(b"ABC") == 3
        assert (other.tell(), other.seek(2)) == (17, 2)
        assert other.write(b"xy") == 2
        into = bytearray(20)
        assert other.readinto(into) == 13
        assert bytes(into[:13]) == b"456789\0\0\0\0ABC"
        assert other.truncate(16) == 16
        assert (other.seek(0, os.SEEK_END), other.seek(-1, os.SEEK_CUR)) == (16, 15)
        other.seek(30)
        assert other.readinto(into) == 0
    assert file.content.tobytes() == expected.getvalue()


def test_what_is_cut_off_is_zero_when_it_is_there_again() -> None:
    file = MemoryFile(100)
    file.write(b"0123456789")
    file.truncate(4)
    assert file.truncate(8) == 8
    assert file.content.tobytes() == b"0123\0\0\0\0"
