"""TFRecord files, their indices and their counts: read as they were written, or refused by record."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_bytes, changed_json
from tests.fuzz.properties import fuzzed
from tests.fuzz.valid_files import compressed, framed, header, tfrecord
from tfdist.data.files.file_facts import FileStamp
from tfdist.data.random_access.line_reader import LineReader
from tfdist.data.random_access.record_index import open_index
from tfdist.data.random_access.tfrecord_reader import TFRecordReader
from tfdist.data.sequential.sequential_tfrecords import _keep, _kept
from tfdist.data.sequential.tfrecord_stream import compression_of, read_records
from tfdist.data.tools.file_checks import check_file, missing_shards
from tfdist.errors import DataError

RECORDS = [b"first", b"", b"the third record" * 20, bytes(3000), b"last"]
WHOLE = tfrecord(RECORDS)
LENGTHS = (0, 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 16, 2**64 - 1)
parts = st.sampled_from([*map(framed, RECORDS), *map(header, LENGTHS), bytes(100), b"\xff" * 30, b"\x1f\x8b\x08"])
files = st.one_of(changed_bytes(WHOLE), st.lists(parts, max_size=8).map(b"".join), st.binary(max_size=100))


def records_of(path: Path, on_corrupt: Any) -> list[bytes]:
    reader = TFRecordReader((path,), on_corrupt)
    return reader.read(np.arange(len(reader))).cut()


@fuzzed(40, content=files)
def test_a_file_is_read_or_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content)
    for on_corrupt in ("stop", "skip"):
        with contextlib.suppress(DataError):
            for record in records_of(path, on_corrupt):
                assert framed(record) in content
    check = check_file(path, lambda _: None)
    assert check.records >= 0
    with contextlib.suppress(DataError):
        found = [record for some in read_records(str(path), "") for record in some]
        assert tfrecord(found) == content


@fuzzed(25, content=files, kind=st.sampled_from(("GZIP", "ZLIB")), change=st.randoms(use_true_random=False))
def test_a_compressed_file_is_read_or_refused(content: bytes, kind: Any, change: Any, tmp_path: Path) -> None:
    data = bytearray(compressed(content, kind))
    for _ in range(change.choice((0, 0, 1, 3))):
        data[change.randrange(len(data))] ^= 1 << change.randrange(8)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(bytes(data[: change.choice((None, None, len(data) // 2))]))
    compression_of(str(path))
    with contextlib.suppress(DataError):
        found = [record for some in read_records(str(path), kind) for record in some]
        assert tfrecord(found) == content
    check_file(path, lambda _: None)


@fuzzed(40, data=st.data())
def test_a_damaged_index_is_made_again(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data.draw(st.sampled_from((WHOLE, WHOLE[:-5], WHOLE[:30] + b"\0" * 20 + WHOLE[30:], b""))))
    verify = data.draw(st.booleans())
    for kind in ("tfrecord", "lines"):
        with contextlib.suppress(DataError):
            found = open_index(path, kind, verify=verify)  # type: ignore[arg-type]
            right = found.starts.tolist(), found.corrupt.tolist()
            del found  # it is mapped from the file that is written to
            kept = path.with_name(f".{path.name}.tfindex")
            kept.write_bytes(data.draw(changed_bytes(kept.read_bytes())))
            again = open_index(path, kind, verify=verify)  # type: ignore[arg-type]
            assert (again.starts.tolist(), again.corrupt.tolist()) == right
            list(again.problems())


@fuzzed(25, data=st.data())
def test_a_damaged_count_is_made_again(tmp_path: Path, data: st.DataObject) -> None:
    stamp, place = FileStamp(100, 5), tmp_path / "a.tfcount"
    _keep([place], stamp, 7)
    place.write_bytes(data.draw(changed_json(json.loads(place.read_bytes()))))
    found = _kept(place, stamp)
    assert found is None or (isinstance(found, int) and found >= 0)


@fuzzed(25, content=st.binary(max_size=200) | changed_bytes(b"\xef\xbb\xbf1\tone\r\n\r\n2\ttwo\n3\tthree"))
def test_lines(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        reader = LineReader((path,))
        lines = reader.read(np.arange(len(reader)))
        kept = [line.removesuffix(b"\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert lines == [line for line in kept if line]
        assert [reader.name(place) for place in range(len(reader))]


@fuzzed(15, names=st.lists(st.from_regex(r"a-[0-9٣]{1,12}-of-[0-9٣]{1,12}(\.x)?", fullmatch=True), max_size=3))
def test_names_of_shards(names: list[str]) -> None:
    list(missing_shards(map(Path, names)))
