from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdist.data.formats.npz_headers import read_headers
from tfdist.errors import DataError


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_shape_and_type_without_the_content(tmp_path: Path, save: object) -> None:
    path = tmp_path / "a.npz"
    save(path, x_train=np.zeros((100, 3, 4)), y_train=np.arange(100, dtype=np.uint8))  # type: ignore[operator]
    x, y = read_headers(path, ("x_train", "y_train"))
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((100, 3, 4), np.float64, (100,), np.uint8)
    assert x.stored >= 9600 if save is np.savez else x.stored < 1000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent.npz", "Cannot read .*absent.npz: No such file or directory"),
        ("text.npz", "text.npz is no npz file or is damaged"),
        ("cut.npz", "cut.npz is no npz file or is damaged"),
        ("other.npz", "other.npz has no array x_train. .* Received: a, b"),
        ("objects.npz", "the array x_train holds Python objects"),
        ("scalar.npz", "the array x_train is a single value"),
        (".", "Cannot read .*: Is a directory"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", a=1, b=2)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:-30])
    np.savez(tmp_path / "objects.npz", x_train=np.array([object()]))
    np.savez(tmp_path / "scalar.npz", x_train=np.array(3))
    with pytest.raises(DataError, match=expected):
        read_headers(tmp_path / name, ("x_train",))
