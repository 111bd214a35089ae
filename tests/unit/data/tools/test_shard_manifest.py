from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tfdist.config.yaml_document import read_document
from tfdist.data.tools.shard_manifest import ShardManifest, config_text, digest_of, shard_name
from tfdist.errors import DataError, UsageError


@pytest.mark.parametrize("name", ["y", "1e3", "no", "12", "a: b", "null", "#", "x y"])
def test_names_stay_texts(name: str, tmp_path: Path) -> None:
    section = {
        "format": "tfrecord",
        "files": f"{name}/train-*.tfrecord",
        "features": {name: {"dtype": "float32", "shape": [2]}, "other": {"dtype": "string", "shape": []}},
        "label": name,
    }
    (tmp_path / "config.yaml").write_text(config_text(section))
    assert read_document(tmp_path / "config.yaml").content["data"]["train"] == section


MANIFEST = ShardManifest({"format": "npz", "split": "train"}, "abc", 10, 2, ("cat", "dog"))
FEATURES = {"x": {"dtype": "float32", "shape": [2]}, "y": {"dtype": "int64"}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"sizes": {"a": 1}, "features": FEATURES}, []),  # how far it has come is no difference
        ({"shards": 3}, ["shards: 2 then, 3 now"]),
        ({"inputs": "def"}, ["its files have changed since"]),
        ({"source": {"format": "npz", "split": "test"}}, ["split: train then, test now"]),
        ({"source": {"format": "csv"}, "inputs": "d"}, ["format: npz then, csv now", "split: train then, None now"]),
    ],
)
def test_what_is_different(changes: dict[str, Any], expected: list[str]) -> None:
    assert dataclasses.replace(MANIFEST, **changes).differences(MANIFEST) == expected


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = MANIFEST.with_shard("a", 5, FEATURES).with_shard("b", 6, FEATURES)
    (tmp_path / "m.json").write_text(json.dumps(manifest.to_json()))
    assert ShardManifest.read(tmp_path / "m.json") == manifest
    assert manifest.sizes == {"a": 5, "b": 6}
    assert ShardManifest.read(tmp_path / "absent.json") is None


def test_shards_of_another_kind() -> None:
    with pytest.raises(DataError, match="b has samples of another kind than those before"):
        MANIFEST.with_shard("a", 5, FEATURES).with_shard("b", 5, {})


def changed(**fields: Any) -> str:
    return json.dumps({**MANIFEST.to_json(), **fields})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 0}',
        '{"version": 1, "classes": [], "more": 1}',
        "[" * 100_000,
        changed(source=[]),
        changed(sizes={"../a": 1}),
        changed(sizes={"a": "1"}),
        changed(sizes=[]),
        changed(shards=-1),
        changed(samples=None),
        changed(classes=[1]),
    ],
    ids=lambda content: content[:40],
)
def test_what_is_no_manifest(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(UsageError, match="m.json does not say what the shards next to it were made of"):
        ShardManifest.read(tmp_path / "m.json")


def test_a_digest_changes_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    os.utime(path, ns=(0, 0))
    first = digest_of([path])
    assert digest_of([path]) == first
    os.utime(path, ns=(0, 1))
    assert digest_of([path]) != first
    with pytest.raises(DataError, match="Cannot read .*absent"):
        digest_of([tmp_path / "absent"])


def test_names_are_those_that_tensorflow_gives() -> None:
    assert shard_name("train", 3, 16) == "train-00003-of-00016.tfrecord"
