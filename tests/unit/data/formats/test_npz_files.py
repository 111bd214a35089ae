from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tfdist.data.formats import npz_files
from tfdist.data.formats.npz_files import read_headers, read_npz
from tfdist.errors import DataError


def test_a_split(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x_train=np.arange(6).reshape(3, 2), y_train=np.arange(3), x_test=np.ones(1), y_test=np.zeros(1))
    x, y = read_npz(path, "train")
    assert (x.tolist(), y.tolist()) == ([[0, 1], [2, 3], [4, 5]], [0, 1, 2])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_arrays_that_are_not_compressed_are_mapped(tmp_path: Path, monkeypatch, save, order: str) -> None:
    monkeypatch.setattr(npz_files, "MAPPED_FROM_BYTES", 300)
    x = np.asarray(np.arange(100, dtype=np.float64).reshape(10, 10), order=order)
    save(tmp_path / "a.npz", y_train=np.arange(10), x_train=x)
    read, y = read_npz(tmp_path / "a.npz", "train")
    assert isinstance(read, np.memmap) == (save is np.savez)
    assert not isinstance(y, np.memmap)
    np.testing.assert_array_equal(read, x)


def damaged(path: Path) -> None:
    np.savez_compressed(path, x_train=np.random.default_rng(1).random(1000), y_train=np.ones(1000))
    data = bytearray(path.read_bytes())
    data[200:210] = bytes(10)
    path.write_bytes(data)


def without_an_array(path: Path) -> None:
    np.savez(path, x_train=np.ones(1))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y_train.npy", b"no array")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "Cannot read .*a.npz: No such file"),
        (lambda path: path.mkdir(), "Cannot read .*a.npz: Is a directory"),
        (lambda path: path.write_bytes(b""), "a.npz is not an npz file"),
        (lambda path: path.write_text("hello"), "a.npz is not an npz file"),
        (lambda path: path.write_bytes(b"PK\x03\x04 cut"), "a.npz is not an npz file"),
        (damaged, "a.npz .* is damaged"),
        (without_an_array, "a.npz .* is damaged: y_train.npy does not hold an array"),
        (lambda path: np.savez(path, x_train=np.ones(1)), "a.npz has no array y_train.* Received: x_train"),
        (lambda path: np.savez(path, x_train=np.array([{}]), y_train=np.ones(1)), "a.npz .* holds pickled objects"),
        (lambda path: np.save(path.open("wb"), np.ones(1)), "a.npz holds a single array"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, write, message: str) -> None:
    path = tmp_path / "a.npz"
    write(path)
    with pytest.raises(DataError, match=message):
        read_npz(path, "train")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_headers_give_shape_and_type(tmp_path: Path, save: object) -> None:
    path = tmp_path / "a.npz"
    save(path, x_train=np.zeros((100, 3, 4)), y_train=np.arange(100, dtype=np.uint8))  # type: ignore[operator]
    x, y = read_headers(path, ("x_train", "y_train"))
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((100, 3, 4), np.float64, (100,), np.uint8)
    assert x.stored >= 9600 if save is np.savez else x.stored < 1000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent.npz", "Cannot read .*absent.npz: No such file or directory"),
        ("text.npz", "text.npz is not an npz file or is damaged"),
        ("cut.npz", "cut.npz is not an npz file or is damaged"),
        ("other.npz", "other.npz has no array x_train. .* Received: a, b"),
        ("objects.npz", "the array x_train holds Python objects"),
        ("scalar.npz", "the array x_train is a single value"),
        (".", "Cannot read .*: Is a directory"),
    ],
)
def test_headers_that_cannot_be_used(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", a=1, b=2)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:-30])
    np.savez(tmp_path / "objects.npz", x_train=np.array([object()]))
    np.savez(tmp_path / "scalar.npz", x_train=np.array(3))
    with pytest.raises(DataError, match=expected):
        read_headers(tmp_path / name, ("x_train",))


def with_entry(path: Path, old: bytes, new: bytes) -> None:
    """A file in which `new` stands for `old`, a pattern."""
    np.savez(path, x_train=np.ones((3, 2)), y_train=np.ones(3))
    content, count = re.subn(old, new, path.read_bytes(), flags=re.DOTALL)
    assert count
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"\(3, 2\)", b"(-3,2)"),
        (rb"\(3, 2\)", b"(3, ,)"),
        (b"<f8", b"<zz"),
        # Encrypted, and compressed by bzip2. The versions of the format before that depend on that of Python.
        (rb"(PK\x01\x02..)(..)\x00\x00", b"\\1\\2\x01\x00"),
        (rb"(PK\x03\x04..)(\x00\x00)\x00\x00", b"\\1\\2\x0c\x00"),
    ],
)
def test_headers_of_damaged_files(tmp_path: Path, old: bytes, new: bytes) -> None:
    with_entry(tmp_path / "a.npz", old, new)
    try:
        found = read_headers(tmp_path / "a.npz", ("x_train", "y_train"))
    except DataError:
        return
    assert found[0].shape == (3, 2), "it says nothing of the content"
