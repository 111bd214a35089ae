"""A checkpoint in shards is read as the one that it would be in one piece; what is damaged is named with its worker."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.helpers.made_checkpoints import damage, folder_of, mark, run_with, shard
from tfdist.checkpoint.checkpoint_contents import contents_fault
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of
from tfdist.checkpoint.inspection.export import export
from tfdist.checkpoint.shards.joined_file import REST, SHARD_TABLE, ShardedFile, opened_weights, shard_file_name
from tfdist.cli.main import main
from tfdist.errors import DataError
from tfdist.rundir import RunDir
from tfdist.sharding.file_shards import FileShards, SharedValue


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_with(tmp_path / "a", 10, 20)


def verb(name: str, run: RunDir, *options: str) -> Any:
    return CliRunner().invoke(main, ["checkpoints", name, str(run), *options])


@pytest.mark.parametrize("workers", [1, 2, 3, 15])
def test_the_bytes_are_those_of_the_whole(workers: int, run: RunDir) -> None:
    content = shard(folder_of(run, 20), workers)
    with opened_weights(folder_of(run, 20)) as file:
        assert file.read() == content
        for start, size in [(0, 10), (len(content) - 3, 9), (len(content), 4), (300, 1), (0, 0)]:
            file.seek(start)
            assert file.read(size) == content[start : start + size]
            assert file.tell() == min(len(content), start + size)
        file.seek(-len(content), io.SEEK_END)
        buffer = bytearray(len(content) + 5)
        assert file.readinto(buffer) == len(content)  # type: ignore[attr-defined]
        assert bytes(buffer[: len(content)]) == content


def test_a_read_that_crosses_parts_opens_those_alone() -> None:
    opened: list[int | None] = []

    def open_shard(worker: int | None) -> Any:
        opened.append(worker)
        return io.BytesIO({None: b"((", 0: b"ab", 1: b"", 2: b"cd"}[worker])

    file = ShardedFile("model.weights.h5", FileShards(6, 3, (SharedValue(1, (0, 2, 2, 4)),)), open_shard)
    file.seek(2)
    assert file.read(2) == b"bc"
    assert opened == [0, 2]
    file.seek(5)
    assert file.read() == b"(" and str(file) == "model.weights.h5"


def test_verbs_read_it_as_a_whole_one(run: RunDir, tmp_path: Path) -> None:
    whole = verb("inspect", run, "--step", "20", "--json")
    content = shard(folder_of(run, 20), 2)
    sharded = verb("inspect", run, "--step", "20", "--json")
    assert json.loads(sharded.stdout)["variables"] == json.loads(whole.stdout)["variables"]
    assert shard_file_name(1, 2) in json.loads(sharded.stdout)["files"]
    assert verb("verify", run).exit_code == 0
    (latest, *_) = checkpoints_of(run.path)[1]
    export(run, latest, tmp_path / "a.weights.h5", load_model=lambda *_: None)
    assert (tmp_path / "a.weights.h5").read_bytes() == content


@pytest.mark.parametrize("name", [SHARD_TABLE, REST, shard_file_name(0, 2), shard_file_name(1, 2)])
def test_a_damaged_or_missing_part_is_named(name: str, run: RunDir) -> None:
    shard(folder_of(run, 20), 2)
    file = folder_of(run, 20) / name
    damage(file)
    said = verb("verify", run)
    assert said.exit_code == 5 and f"the checksum of {name}" in said.stdout
    assert ("the part of worker 1" in said.stdout) == (name == shard_file_name(1, 2))
    file.write_bytes(file.read_bytes()[:-1])
    assert "bytes instead of" in str(stored(run.checkpoints_dir)[0].fault())
    file.unlink()
    assert f"{name}" in str(stored(run.checkpoints_dir)[0].fault())
    assert "cannot be read: No such file" in str(stored(run.checkpoints_dir)[0].fault())


@pytest.mark.parametrize("name", [SHARD_TABLE, REST, shard_file_name(0, 2), shard_file_name(1, 2)])
def test_a_marker_that_fits_other_parts_is_no_excuse(name: str, run: RunDir, tmp_path: Path) -> None:
    """Whoever wrote the marker: shards that do not make up the whole are refused."""
    shard(folder_of(run, 20), 2)
    file = folder_of(run, 20) / name
    file.write_bytes(file.read_bytes() + b" ]")
    mark(folder_of(run, 20))
    latest = stored(run.checkpoints_dir)[0]
    assert latest.fault() is None
    assert name in str(contents_fault(latest))
    assert verb("inspect", run, "--step", "20").exit_code == 5
    with pytest.raises(DataError, match="damaged"):
        export(run, checkpoints_of(run.path)[1][0], tmp_path / "a.weights.h5", load_model=lambda *_: None)


def test_no_more_memory_is_claimed_than_there_are_bytes(run: RunDir) -> None:
    shard(folder_of(run, 20), 2)
    table = json.loads((folder_of(run, 20) / SHARD_TABLE).read_text())
    (folder_of(run, 20) / SHARD_TABLE).write_text(json.dumps({**table, "bytes": 1 << 50}))
    mark(folder_of(run, 20))
    assert REST in str(contents_fault(stored(run.checkpoints_dir)[0]))
    (folder_of(run, 20) / SHARD_TABLE).write_text(json.dumps({"bytes": 0, "workers": 1 << 50, "values": []}))
    mark(folder_of(run, 20))
    assert contents_fault(stored(run.checkpoints_dir)[0]) is not None


def test_a_part_that_shrinks_while_it_is_read(run: RunDir) -> None:
    shard(folder_of(run, 20), 2)
    with opened_weights(folder_of(run, 20)) as file:
        (folder_of(run, 20) / shard_file_name(1, 2)).write_bytes(b"")
        with pytest.raises((OSError, ValueError), match=r"cut short|has 0 bytes"):
            file.read()


def test_checksums_of_parts_are_of_their_bytes(run: RunDir) -> None:
    content = shard(folder_of(run, 20), 3)
    marker = json.loads((folder_of(run, 20) / "checkpoint.json").read_text())["files"]
    shards = [name for name in marker if name.startswith("weights.") and name != SHARD_TABLE]
    assert sum(marker[name]["bytes"] for name in shards) == len(content)
    first = (folder_of(run, 20) / shard_file_name(0, 3)).read_bytes()
    assert marker[shard_file_name(0, 3)]["crc32"] == zlib.crc32(first)
