from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.data.commands import run
from tfdist.config.data_sections import CsvSource, ImagesSource, NpzSource, TextSource
from tfdist.data.tools import shard_job
from tfdist.data.tools.shard_job import ShardRequest


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


def test_ctrl_c_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(shard_job, "run_in_processes", interrupted)
    result = run("shard a.npz out --shards 2")
    assert result.exit_code == 130
    assert "stopped: Ctrl-C, SIGINT; 0 of 2 shards are finished; the same command makes the others" in result.stderr
