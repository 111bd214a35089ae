"""Tests of tar files of the WebDataset layout: their scan, reader and check."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.config.data_sections import FeatureConfig, WebdatasetSource
from tfdist.data.format_registry import measure, sample_specs
from tfdist.data.formats.tar_reader import TarReader
from tfdist.data.random_access import file_scans
from tfdist.data.random_access.record_index import open_index
from tfdist.data.sample_source import ArraySpec, SampleSpecs
from tfdist.data.tools.format_checks import check_tar
from tfdist.errors import DataError

NUMBER = FeatureConfig(dtype="int64")
FEATURES = {"txt": FeatureConfig(dtype="string"), "cls": NUMBER}


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def write(path: Path, members: Iterable[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
            archive.addfile(member, io.BytesIO(content))
    return path


def pairs(first: int, samples: int) -> list[tuple[str, bytes]]:
    return [
        part
        for number in range(first, first + samples)
        for part in ((f"{number:04}.txt", b"t" * number), (f"{number:04}.cls", str(number).encode()))
    ]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_samples_of_several_files_in_any_order(tmp_path: Path, form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_scans, "_TOGETHER", 2)
    first = write(tmp_path / "a.tar", pairs(0, 5), form)
    reader = TarReader((first, write(tmp_path / "b.tar", []), write(tmp_path / "c.tar", pairs(5, 2))), FEATURES)
    texts, labels = reader.read(np.array([6, 0, 3, 3]))
    assert (len(reader), reader.records.counts.tolist()) == (7, [5, 0, 2])
    assert labels.tolist() == [6, 0, 3, 3] and texts.tolist() == [b"t" * 6, b"", b"ttt", b"ttt"]
    assert [array.shape for array in reader.read(np.empty(0, np.int64))] == [(0,), (0,)]
    assert reader.name(6) == f"{tmp_path / 'c.tar'}, sample 1 (0006)"


def test_what_is_no_part_of_a_sample_is_passed_over(tmp_path: Path) -> None:
    long = "d/" * 80 + "x"
    members = [
        ("__meta__/info.json", b"{}"),
        ("d/", b""),
        ("README", b"?"),
        (f"{long}.TXT", "é".encode()),
        ("d/.hidden.txt", b"?"),
        (f"{long}.cls", b"7"),
        ("d/x.seg.txt", b"no"),
        ("d/x.txt", b"yes"),
        ("d/x.cls", b"8"),
    ]
    reader = TarReader((write(tmp_path / "a.tar", members),), FEATURES)
    texts, labels = reader.read(np.arange(2))
    assert len(reader) == 2 and texts.tolist() == ["é".encode(), b"yes"]
    assert labels.tolist() == [7, 8] and reader.name(0).endswith(f"({long})")


@pytest.mark.parametrize(
    ("feature", "content", "value"),
    [
        (NUMBER, b" 7\n", 7),
        (NUMBER, npy(np.uint8(7)), 7),
        (FeatureConfig(dtype="int64", shape=[2]), b"1 -2", [1, -2]),
        (FeatureConfig(dtype="float32", shape=[1, 2]), npy(np.array([1, 2])), [[1.0, 2.0]]),
        (FeatureConfig(dtype="float32"), b"1e3", 1000.0),
    ],
)
def test_numbers(tmp_path: Path, feature: FeatureConfig, content: bytes, value: Any) -> None:
    reader = TarReader((write(tmp_path / "a.tar", [("1.y", content), ("1.txt", b"")]),), {".Y": feature})
    (array,) = reader.read(np.array([0]))
    assert array[0].tolist() == value and array.dtype == feature.dtype


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([("7.txt", b""), ("7.json", b"")], r"a.tar, sample 0 \(7\) has no cls. It has: txt, json. Expected all"),
        ([("7.txt", b""), ("7.cls", b"cat")], r"\(7\), cls: invalid literal .* Expected int64 of the shape \[\]"),
        ([("7.txt", b""), ("7.cls", b"1 2")], r"cls: it has 2 number\(s\)"),
        ([("7.txt", b""), ("7.cls", npy(0.5))], "cls: its numbers are of the type float64"),
        ([("7.txt", b""), ("7.cls", npy(np.array([None])))], "cls: Object arrays cannot be loaded"),
        ([("7.txt", b""), ("7.cls", npy(np.arange(9))[:90])], "cls: "),
        ([("7.cls", b"1"), ("7.CLS", b"1")], r"sample 0 \(7\) has two members that end in .cls"),
    ],
)
def test_samples_that_do_not_fit(tmp_path: Path, members: list[tuple[str, bytes]], text: str) -> None:
    reader = TarReader((write(tmp_path / "a.tar", members),), FEATURES)
    with pytest.raises(DataError, match=text):
        reader.read(np.array([0]))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", pairs(0, 5))
    whole = path.read_bytes()
    second = whole.index(b"0001.txt")
    for content, text in [
        (whole[: second + 700], r"a.tar is truncated: behind the members up to byte \d+ its data ends"),
        (whole[:second], r"a.tar is truncated: behind the members up to byte \d+ it has no end"),
        (whole[:second] + b"x" + whole[second + 1 :], r"a.tar is damaged: behind .* no header of a member stands"),
        (gzip.compress(whole), "a.tar is no plain tar file: .* not compressed"),
        (b"x" * 2000, "a.tar is no plain tar file"),
        (b"", "Expected at least one sample"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=text):
            TarReader((path,), FEATURES)
    assert open_index(write(path, pairs(0, 5)), "tar").starts.tolist()[0] == 0


def test_the_check(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [*pairs(0, 3), ("0003.txt", b"")])
    reported: list[int] = []
    found = check_tar(path, reported.append)
    assert (found.records, sum(reported)) == (3, path.stat().st_size)
    (problem,) = found.problems
    assert problem.record == 3 and "sample 3 (0003), at byte " in problem.text
    assert problem.text.endswith("it has txt. The first one has cls, txt.")
    assert not check_tar(write(path, pairs(0, 3)), reported.append).problems
    path.write_bytes(path.read_bytes()[:2500])
    (problem,) = check_tar(path, reported.append).problems
    assert problem.reason == "unreadable" and "is truncated" in problem.text


def test_shapes_are_known_without_a_sample() -> None:
    image = FeatureConfig(dtype="image", shape=[4, 5, 1])
    section = WebdatasetSource(files="no.tar", features={"JPG": image, "cls": NUMBER}, label="cls")
    assert sample_specs(section) == SampleSpecs(ArraySpec("float32", (4, 5, 1)), ArraySpec("int64"))


def test_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", pairs(0, 3))
    sizes = measure(WebdatasetSource(files=str(tmp_path / "*.tar"), features=FEATURES, label="cls"))
    assert sizes.samples == 3 and sizes.estimated and sizes.sequence is None
    numbers = {"cls": NUMBER, "txt": FeatureConfig(dtype="float32", shape=[3])}
    assert measure(WebdatasetSource(files=str(tmp_path / "*.tar"), features=numbers, label="cls")).sample_bytes == 20
