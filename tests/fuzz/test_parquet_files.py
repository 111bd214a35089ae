"""Parquet files whose pages, or footers, are of any kind."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_bytes
from tests.fuzz.properties import fuzzed
from tfdist.config.data_sections import ParquetSource
from tfdist.data.files.parquet_footers import check_footers
from tfdist.data.formats import parquet_files
from tfdist.data.random_access import parquet_reader
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.tools.format_checks import ParquetRules, make_parquet_checker
from tfdist.errors import DataError


def parquet(**options: Any) -> bytes:
    """A file of three row groups with numbers, lists of them, texts and a label."""
    columns = {
        "a": pa.array(np.arange(10, dtype=np.float32)),
        "b": pa.array([[1, 2, 3]] * 10, pa.list_(pa.int64())),
        "c": pa.array(["one", "two"] * 5),
        "y": pa.array(np.arange(10)),
    }
    content = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), content, row_group_size=4, **options)
    return content.getvalue()


FILES = [
    parquet(),
    parquet(use_dictionary=False, compression="none", write_page_checksum=True),
    parquet(data_page_version="2.0", compression="gzip", write_statistics=False),
]


def footer_of(file: bytes) -> int:
    """Where its footer begins."""
    return len(file) - 8 - int.from_bytes(file[-8:-4], "little")


@st.composite
def other_footers(draw: st.DrawFn) -> bytes:
    """A file whose footer was changed."""
    valid = draw(st.sampled_from(FILES))
    begin = footer_of(valid)
    footer = draw(changed_bytes(valid[begin:-8]))
    return valid[:begin] + footer + len(footer).to_bytes(4, "little") + valid[-4:]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file whose pages were changed, or that was cut."""
    valid = draw(st.sampled_from(FILES))
    if draw(st.sampled_from((False, False, True))):
        return valid[: draw(st.integers(0, len(valid)))]
    begin = footer_of(valid)
    pages = draw(changed_bytes(valid[:begin]))
    return pages[:begin].ljust(begin, b"\0") + valid[begin:]


@fuzzed(2, contents=st.lists(other_footers(), min_size=20, max_size=40))
def test_footers(contents: list[bytes], tmp_path: Path) -> None:
    """Whatever passes the look of another process does not end this one."""
    paths = [tmp_path / f"{number}.parquet" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    while paths:
        try:
            check_footers(paths)
            break
        except DataError as error:
            named = [path for path in paths if str(error).startswith(f"{path} cannot be read")]
            assert len(named) == 1, error
            paths.remove(named[0])
    with mock.patch.object(parquet_reader, "check_footers"):
        for path in paths:
            read(path)


@fuzzed(50, content=files())
def test_a_parquet_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    # The footer is one that pyarrow has written.
    with mock.patch.object(parquet_reader, "check_footers"):
        read(path)


def read(path: Path) -> None:
    with contextlib.suppress(DataError):
        reader = ParquetReader((path,), ParquetFeatures("y", shapes={"b": (3,)}))
        a, b, c, y = reader.read(np.arange(len(reader)))
        assert len(a) == len(b) == len(c) == len(y) == len(reader) and b.shape[1:] == (3,)
    with contextlib.suppress(DataError):
        section = ParquetSource(format="parquet", files=str(path), label="y", shapes={"b": [3]})
        assert parquet_files.measure(section, "data.train").samples >= 1
    with contextlib.suppress(DataError):
        make_parquet_checker(ParquetRules())(path, lambda _: None)
