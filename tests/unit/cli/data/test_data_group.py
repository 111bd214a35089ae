from __future__ import annotations

import json
import multiprocessing
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tfdist.cli.data import index
from tfdist.cli.main import main
from tfdist.config.data_sections import CsvSource, ImagesSource, NpzSource, TextSource
from tfdist.data.random_access.crc32c import masked_crc32c
from tfdist.data.random_access.record_index import open_index
from tfdist.data.tools import shard_job
from tfdist.data.tools.index_builder import IndexedFile
from tfdist.data.tools.shard_job import ShardRequest


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "a.npz", x_train=np.zeros((5, 2)), y_train=np.zeros(5), x_test=np.zeros(2), y_test=np.zeros(2))
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,3\n")
    (tmp_path / "a.txt").write_text("1\tone\n\n2\ttwo\n")
    (tmp_path / "images").mkdir()


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["data", *arguments.split()])


class Requested(Exception):
    """What would have been made."""


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ShardRequest]:
    found: list[ShardRequest] = []

    def make(request: ShardRequest) -> Any:
        found.append(request)
        raise Requested

    monkeypatch.setattr(shard_job, "ShardJob", make)
    return found


@pytest.mark.parametrize(
    ("arguments", "section", "name"),
    [
        ("a.npz out", NpzSource(path="a.npz", split="train"), "train"),
        ("a.npz out --split test --name b", NpzSource(path="a.npz", split="test"), "b"),
        ("a.csv out --label y", CsvSource(files="a.csv", label="y"), "a"),
        ("*.csv out --label y --columns b,a", CsvSource(files="*.csv", label="y", columns=["b", "a"]), "data"),
        ("train-*.txt out", TextSource(files="train-*.txt"), "train"),
        ("a.log out --format text --vectorize a.b", TextSource(files="a.log", vectorize="a.b"), "a"),
        ("images out --size 5,7", ImagesSource(path="images", size=[5, 7]), "images"),
        ("images/ out --size 5,7 --channels 1", ImagesSource(path="images", size=[5, 7], channels=1), "images"),
    ],
)
def test_a_source_by_its_name_and_options(
    requests: list[ShardRequest], tmp_path: Path, arguments: str, section: Any, name: str
) -> None:
    run(f"shard {arguments} --shards 3 --processes 2")
    [request] = requests
    [path] = section.PATHS
    found = {key: value for key, value in vars(request.section).items() if key != path}
    expected = {key: value for key, value in vars(section).items() if key != path}
    assert type(request.section) is type(section)
    assert {**found, "size": list(found.get("size", ()))} == {**expected, "size": list(expected.get("size", ()))}
    assert getattr(request.section, path) == str(tmp_path / getattr(section, path))
    assert (request.name, request.directory, request.shards, request.processes) == (name, Path("out"), 3, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("shard a.dat out", 2, "What a.dat is cannot be told from its name."),
        ("shard a.csv out", 2, "--label is missing"),
        ("shard images out", 2, "--size is missing"),
        ("shard images out --size 5", 2, "expected HEIGHT,WIDTH in pixels, such as 224,224. Received: '5'"),
        ("shard images out --size 0,5", 2, "expected HEIGHT,WIDTH"),
        ("shard a.npz out --label y", 2, "--label is no option of npz"),
        ("shard a.npz out --label-separator ,", 2, "--label-separator is no option of npz"),
        ("shard a.csv out --label y --columns a,,b", 2, "expected names, such as a,b,c"),
        ("shard a.csv out --label y --columns a,y", 2, "columns: expected none to be the label"),
        ("shard a.npz out --name ../b", 2, "--name: expected the beginning of a file name"),
        ("shard a.npz out --shards 6", 2, "at most one for each of 5 samples"),
        ("shard a.npz a.csv", 2, "Expected DEST to be a directory"),
        ("shard absent.npz out", 5, "absent.npz: No such file"),
        ("shard images out --size 5,5", 5, "No image below"),
        ("shard a.csv out --label z", 5, "a.csv has no column z"),
        ("check absent*", 5, "No file matches absent*"),
        ("index images", 5, "images is a directory"),
        ("check", 2, "Missing argument"),
    ],
)
def test_mistakes(arguments: str, code: int, message: str) -> None:
    result = run(arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(shard_job, "run_in_processes", interrupted)
    result = run("shard a.npz out --shards 2")
    assert result.exit_code == 130
    assert "stopped: Ctrl-C, SIGINT; 0 of 2 shards are finished; the same command makes the others" in result.stderr


def write_records(name: str, count: int) -> Path:
    """A TFRecord file with `count` records of three bytes, 19 bytes each in all."""
    length, record = struct.pack("<Q", 3), b"abc"
    frame = length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))
    Path(name).write_bytes(frame * count)
    return Path(name)


def test_check() -> None:
    bad = write_records("bad", 3)
    write_records("good", 3)
    bad.write_bytes(bad.read_bytes()[:-1])
    result = run("check good")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 file, 3 records, 57 B: nothing wrong")
    result = run("check good bad --processes 2 --json")
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert [(file["path"], file["records"]) for file in document["files"]] == [("bad", 2), ("good", 3)]
    assert document["files"][0]["problems"][0]["offset"] == 38
    assert not multiprocessing.active_children()


def test_check_of_csv_and_text() -> None:
    write_records("good", 3)
    Path("a.csv").write_text("a,kind,y\n1,cat,3\n2,dog\n")
    Path("a.txt").write_text("1\tone\n\ntwo\n")
    result = run("check a.csv a.txt good --processes 1")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (5, "3 files, 4 records, 91 B: 3 problems")
    for problem in ("a.csv, line 2: could not convert string to float: 'cat'", "a.csv, line 3: expected 3 columns"):
        assert problem in result.stdout
    assert "a.txt, line 3: expected an integer label, '\\t' and the text. Received: 'two'" in result.stdout
    assert "1 problem" in run("check a.csv --columns a,y").stdout
    assert run("check a.csv --columns z").exit_code == 5
    assert run("check a.csv --format text --label-separator a").exit_code == 5


def test_index(tmp_path: Path) -> None:
    path = write_records("b.tfrecord", 3)
    result = run("index a.txt b.tfrecord")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "1 file, 2 lines: indexed beside the files or in ~/.cache/tfdist",
        "1 file, 3 records: indexed beside the files or in ~/.cache/tfdist",
    ]
    assert Path(".a.txt.tfindex").exists()
    assert open_index(path).file == Path(".b.tfrecord.tfindex")


def test_an_index_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_records("b.tfrecord", 1)
    monkeypatch.setattr(index, "for_each", lambda *_: [IndexedFile(path, 1, None)])
    result = run("index b.tfrecord")
    assert result.exit_code == 2
    assert "The index of b.tfrecord can be kept neither beside it nor in ~/.cache/tfdist" in result.stderr
