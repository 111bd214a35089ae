from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdist.data.random_access.line_reader import TextReader
from tfdist.errors import DataError


def test_labels_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\tgood\tfilm\n\n0\tschlecht für alle\n", encoding="utf-8")
    texts, labels = TextReader((path,)).read(np.array([1, 0]))
    assert texts.tolist() == ["schlecht für alle".encode(), b"good\tfilm"]
    assert labels.tolist() == [0, 1]


def test_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("-3 :: a text\n")
    texts, labels = TextReader((path,), "::").read(np.array([0]))
    assert (texts.tolist(), labels.tolist()) == ([b" a text"], [-3])


@pytest.mark.parametrize("line", ["no label here", "good\ta film", "\ta film", f"{1 << 63}\ta film"])
def test_a_line_without_a_label(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"1\tfine\n\n{line}\n")
    with pytest.raises(DataError, match="a.txt, line 3: expected an integer label"):
        TextReader((path,)).read(np.array([0, 1]))


def test_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n")
    with pytest.raises(DataError, match="at least one sample"):
        TextReader((path,))
