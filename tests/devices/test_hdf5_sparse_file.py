"""HDF5 writes a sparse file as any other, whose zeros take no memory."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

from tfdist.keras_repairs.files.hdf5_files import SparseFile


def fill(file: io.BytesIO, zeros: int) -> None:
    with h5py.File(file, "w") as content:
        content["first"] = np.arange(5.0)
        content["hole"] = np.zeros(zeros, np.float32)
        content["text"] = "a name"
        content.create_group("deep/er")["last"] = np.arange(70_000, dtype=np.int32)
        content["first"].attrs["dtype"] = "bfloat16"


@pytest.mark.parametrize("zeros", [1, 3, 100_000, 3_000_000])
def test_the_bytes_are_those_of_a_file_in_memory(zeros: int) -> None:
    sparse, whole = SparseFile(), io.BytesIO()
    fill(sparse, zeros)
    fill(whole, zeros)
    assert sparse.size == len(whole.getvalue())
    assert sparse.bytes_between(0, sparse.size).tobytes() == whole.getvalue()
    assert len(sparse._pages) < 12, "of 65,536 bytes each"
    with h5py.File(sparse, "r") as content:
        np.testing.assert_array_equal(content["deep/er/last"], np.arange(70_000))
        assert not content["hole"][()].any()


def test_it_is_read_written_and_cut_short_like_any_file() -> None:
    sparse, whole = SparseFile(), io.BytesIO()
    generator = np.random.default_rng(3)
    for _ in range(200):
        place, size = (int(number) for number in generator.integers(0, 200_000, 2))
        content = generator.integers(0, 2, size, np.uint8).tobytes() if place % 3 else bytes(size)
        for file in (sparse, whole):
            file.seek(place)
            file.write(content)
        if place % 17 == 0:
            for file in (sparse, whole):
                file.truncate(place)
        assert sparse.size == len(whole.getvalue())
        into = bytearray(size)
        sparse.seek(place // 2)
        whole.seek(place // 2)
        assert bytes(into[: sparse.readinto(into)]) == whole.read(size)
    assert sparse.bytes_between(0, sparse.size).tobytes() == whole.getvalue()
