"""Objects that one of several writers makes."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clusters.buckets.conftest import requests_to
from tests.clusters.buckets.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.clusters.buckets.stores import RunningStore
from tfdist.errors import UnsupportedError
from tfdist.storage.conditional_create import ConditionalCreator, conditional_creator
from tfdist.storage.s3_store import S3Store

WRITERS = 8


@pytest.mark.parametrize("kind", ["moto", "seaweed"])
def test_one_of_eight_wins(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    running: RunningStore = request.getfixturevalue(kind)
    store = S3Store(requests_to(running.endpoint, monkeypatch))
    bucket = running.new_bucket()
    contents = [secrets.token_bytes(16) for _ in range(WRITERS)]
    creators = [ConditionalCreator(store) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        tries = [
            pool.submit(creator.create_if_absent, f"s3://{bucket}/a", content)
            for creator, content in zip(creators, contents, strict=True)
        ]
        won = [each.result() for each in tries]
    assert sum(won) == 1
    assert running.objects(bucket) == {"a": contents[won.index(True)]}  # and nothing of the trials is left


def test_a_store_that_ignores_the_condition_is_found_out(
    moto: RunningStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_proxy(moto.endpoint, drops=("If-None-Match",)) as proxy:
        creator = ConditionalCreator(S3Store(requests_to(proxy.endpoint, monkeypatch)))
        bucket = moto.new_bucket()
        for _ in range(2):
            with pytest.raises(UnsupportedError, match="lets every writer create the same object: it ignores"):
                creator.create_if_absent(f"s3://{bucket}/a", b"content")
        assert moto.names(bucket) == []
        assert len([line for line in proxy.requests if line.startswith("PUT")]) <= 9  # the bucket is tried once


def test_a_winner_whose_answer_was_lost_knows_its_object(
    moto: RunningStore, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    creator = ConditionalCreator(S3Store(requests_to(proxy.endpoint, monkeypatch, first_wait=0.01)))
    url = f"s3://{moto.new_bucket()}/a"
    assert creator.honours_condition(url)
    proxy.fails_first(1, Fault(lost=True), "PUT")
    assert creator.create_if_absent(url, b"mine")
    assert not creator.create_if_absent(url, b"another's")


@pytest.mark.parametrize("url", ["gs://bucket/a", "/shared/a", "ram://a"])
def test_other_stores_have_no_such_call(url: str) -> None:
    with pytest.raises(UnsupportedError, match="Expected s3://BUCKET/NAME"):
        conditional_creator(url)
