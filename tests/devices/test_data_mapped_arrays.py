"""Arrays that are mapped from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.data.formats.array_samples import MappedSamples, array_source
from tfdist.data.ops.record_parser import data_error_in
from tfdist.errors import DataError


def mapped(folder: Path, name: str, array: np.ndarray) -> np.memmap:
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def test_rows_are_those_of_the_arrays_in_memory(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    x = {"a": np.random.default_rng(1).random((10, 3)), "b": np.arange(10, dtype=np.uint8)}
    x |= {"text": np.array([["ä" * n, "b"] for n in range(10)]), "bytes": np.array([b"a" * n for n in range(10)])}
    y = np.array([str(n) for n in range(10)])
    on_disk = {name: mapped(tmp_path, name, array) for name, array in x.items()}
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 1, "strategy": strategy}
    there = tfdist.data.arrays(on_disk, y, **options)
    here = tfdist.data.arrays(x, y, **options)
    assert isinstance(array_source(on_disk, y), MappedSamples)
    for _ in range(2):
        for one, other in zip(there, here, strict=True):
            pairs = zip(*(tf.nest.flatten(batch, expand_composites=True) for batch in (one, other)), strict=True)
            for a, b in pairs:
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)


def test_nothing_is_read_before_its_turn(tmp_path: Path) -> None:
    """More than the memory of any machine, in a file without blocks."""
    path = tmp_path / "x"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    x = np.memmap(path, np.uint8, "r", shape=(1 << 30, 1 << 10))
    batch = next(iter(tfdist.data.arrays(x, batch_size=2, shuffle=True)))
    assert batch.numpy().tolist() == [[0] * 1024] * 2


def rewritten(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def shorter(path: Path) -> None:
    os.truncate(path, 10)


@pytest.mark.parametrize("change", [rewritten, shorter, Path.unlink])
def test_a_file_that_changes_is_named(tmp_path: Path, change: Any) -> None:
    batches = tfdist.data.arrays(mapped(tmp_path, "x", np.zeros((5, 3))), batch_size=2)
    change(tmp_path / "x.npy")
    with pytest.raises(tf.errors.OpError) as raised:
        list(batches)
    told = str(data_error_in(raised.value))
    assert "x.npy changed while the run was using it" in told or "Cannot read" in told and "x.npy" in told


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 2)), "at least one sample"),
        (np.zeros((4, 2)), r"same number of samples. Received the shapes: \(4, 2\), \(3,\)"),
        (np.zeros(3, complex), "Expected numbers or strings. Received: an array of type complex128"),
    ],
)
def test_arrays_that_cannot_be_used(tmp_path: Path, array: np.ndarray, message: str) -> None:
    y = np.zeros(len(array) if len(array) == 0 else 3)
    path = tmp_path / "x"
    path.write_bytes(array.tobytes() or b"\0")
    x = np.memmap(path, array.dtype, "r", shape=array.shape) if len(array) else mapped(tmp_path, "y", np.zeros(1))[:0]
    with pytest.raises(DataError, match=message):
        tfdist.data.arrays(x, y, batch_size=1)
