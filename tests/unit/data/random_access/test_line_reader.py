from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.data.random_access import file_scans
from tfdist.data.random_access.line_reader import LineReader
from tfdist.errors import DataError


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\r\n\n", []),
        (b"a", [b"a"]),
        (b"a\nbc\n", [b"a", b"bc"]),
        (b"a\r\nbc\r\n", [b"a", b"bc"]),
        (b"a\r\nbc\r", [b"a", b"bc"]),
        (b"\n\na\n\nbc\n\n", [b"a", b"bc"]),
        (b"\xef\xbb\xbfa\nb", [b"a", b"b"]),  # a byte order mark is no text
        (b"\xef\xbb\xbf\nb", [b"b"]),
        (b"a\rb\n", [b"a\rb"]),  # a lone CR ends no line
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, expected: list[bytes], chunk: int
) -> None:
    monkeypatch.setattr(file_scans, "CHUNK", chunk)
    path = tmp_path / "text"
    path.write_bytes(content)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    reader = LineReader((other, path))
    assert reader.read(np.arange(len(reader))) == [b"other", *expected]


@given(st.lists(st.binary(max_size=5).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")), max_size=20))
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, content: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"x\n" + b"\n".join(content))
    reader = LineReader((path,))
    assert reader.read(np.arange(len(reader))) == [b"x", *(line for line in content if line)]


def test_a_header_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"header\na\n")
    assert LineReader((path,), header=True).read(np.array([0])) == [b"a"]


def test_names_count_all_lines(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a\n\n\nb\n")
    assert LineReader((path,)).name(1) == f"{path}, line 4"


@pytest.mark.parametrize(
    ("compress", "name"), [(gzip.compress, "GZIP"), (bz2.compress, "bzip2"), (lzma.compress, "xz")]
)
def test_compressed_files_are_refused(tmp_path: Path, compress: Callable[[bytes], bytes], name: str) -> None:
    (tmp_path / "a").write_bytes(b"a\n")
    (tmp_path / "b").write_bytes(compress(b"a\nb\n"))
    with pytest.raises(DataError, match=f"b is {name}-compressed. Expected plain text"):
        LineReader((tmp_path / "a", tmp_path / "b"))
