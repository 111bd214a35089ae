"""The store of s3://, against servers that speak S3."""

from __future__ import annotations

import errno
import random

import pytest

from tests.clusters.buckets.conftest import requests_to
from tests.clusters.buckets.stores import RunningStore
from tfdist.storage import s3_store
from tfdist.storage.object_path import ObjectPath
from tfdist.storage.s3_requests import S3Requests
from tfdist.storage.s3_store import S3Store


@pytest.fixture(params=["moto", "seaweed"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[S3Store, str]:
    """A store and a place in it."""
    running: RunningStore = request.getfixturevalue(request.param)
    return S3Store(requests_to(running.endpoint, monkeypatch)), f"s3://{running.new_bucket()}/run"


def test_what_is_written_is_read(store: tuple[S3Store, str]) -> None:
    objects, url = store
    for content in (b"", b"a", b"b" * 70_000):
        objects.write(f"{url}/a", memoryview(content))
        assert objects.status(f"{url}/a").size == len(content)
        with objects.open(f"{url}/a") as file:
            assert file.read() == content
    with objects.open(f"{url}/a") as file:
        assert file.seek(-3, 2) == 69_997 and file.read(9) == b"bbb" and file.read(1) == b""
        assert file.seek(10) == 10 and file.tell() == 10 and len(file.read(5)) == 5


def test_large_objects_go_in_parts(store: tuple[S3Store, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store, "PART_BYTES", 5 << 20)  # the least that S3 allows
    objects, url = store
    content = random.Random(1).randbytes((12 << 20) + 7)
    objects.write(f"{url}/a", content)
    with objects.open(f"{url}/a") as file:
        assert file.read() == content


def test_folders_are_parts_of_names(store: tuple[S3Store, str]) -> None:
    objects, url = store
    for name in ("a", "b/c", "b/d/e", "bb"):
        objects.write(f"{url}/{name}", b"x")
    assert objects.children(url) == ["a", "b", "bb"]
    assert objects.children(f"{url}/b") == ["c", "d"]
    assert "run" in objects.children(url.removesuffix("/run"))
    objects.remove_below(f"{url}/b")
    assert objects.children(url) == ["a", "bb"]
    objects.remove(f"{url}/bb")
    objects.remove(f"{url}/bb")
    assert objects.children(url) == ["a"]


def test_what_is_not_there(store: tuple[S3Store, str]) -> None:
    objects, url = store
    path = ObjectPath(objects, url)
    assert not (path / "a").exists()
    for act in (lambda: objects.status(f"{url}/a"), lambda: objects.children(url), lambda: objects.open(f"{url}/a")):
        with pytest.raises(FileNotFoundError) as caught:
            act()
        assert caught.value.filename.startswith(url)
    objects.remove_below(url)
    assert objects.matching(f"{url}/*") == []


def test_a_bucket_that_does_not_exist_is_not_an_empty_one(store: tuple[S3Store, str]) -> None:
    objects, _ = store
    with pytest.raises(OSError, match="there is no such bucket. Make it") as caught:
        objects.children("s3://no-such-bucket-here/run")
    assert caught.value.errno == errno.EREMOTEIO
    with pytest.raises(OSError, match="names no bucket"):
        objects.children("s3://")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("train-*", ["train-0", "train-1", "train-x"]),
        ("train-[0-9]", ["train-0", "train-1"]),
        ("train-[!0-9]", ["train-x"]),
        ("train-?", ["train-0", "train-1", "train-x"]),
        ("*", ["train-0", "train-1", "train-x"]),
        ("*/train-*", ["a/train-2"]),
        ("**/train-*", ["a/b/train-3", "a/train-2", "train-0", "train-1", "train-x"]),
        ("train-0", ["train-0"]),
        ("train", []),
    ],
)
def test_patterns(pattern: str, expected: list[str], url: str) -> None:
    objects = S3Store(S3Requests())
    for name in ("train-0", "train-1", "train-x", "a/train-2", "a/b/train-3", "other/x"):
        objects.write(f"{url}/{name}", b"x")
    assert objects.matching(f"{url}/{pattern}") == [f"{url}/{name}" for name in expected]


def test_lists_have_several_pages(moto: RunningStore, url: str) -> None:
    bucket = url.split("/")[2]
    client = moto.client()
    for number in range(1002):
        client.put_object(Bucket=bucket, Key=f"run/{number:04d}", Body=b"")
    objects = S3Store(S3Requests())
    assert len(objects.children(url)) == 1002
    objects.remove_below(url)
    assert moto.names(bucket) == []


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_store, "BLOCK_BYTES", 10)
    objects = S3Store(S3Requests())
    objects.write(f"{url}/a", b"a" * 100)
    with objects.open(f"{url}/a") as file:
        assert file.read(10) == b"a" * 10
        objects.write(f"{url}/a", b"b" * 100)
        with pytest.raises(OSError, match="it was replaced while it was read"):
            file.read(50)
