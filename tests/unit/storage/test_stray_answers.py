"""Answers that no S3 gives: each is an error at once, and takes neither memory nor time without a bound."""

from __future__ import annotations

import errno
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.storage.stray_store import StrayStore, stray_store
from tfdist.storage.bounded_session import MOST_ANSWER_BYTES
from tfdist.storage.object_store import NoAnswerError
from tfdist.storage.s3_requests import RetryPolicy, S3Requests
from tfdist.storage.s3_store import MOST_NAME_BYTES, MOST_TOKEN_LETTERS, ListingBounds, S3Store

URL = "s3://bucket/run"


@pytest.fixture(scope="module")
def server() -> Iterator[StrayStore]:
    """The server of all tests, each of which says what it answers."""
    with stray_store() as found:
        yield found


@pytest.fixture
def stray(server: StrayStore, monkeypatch: pytest.MonkeyPatch) -> StrayStore:
    """The store, which this process reaches."""
    values = {"ENDPOINT_URL": server.endpoint, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
    for name, value in {**values, "DEFAULT_REGION": "us-east-1", "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    server.requests.clear()
    return server


def store_of(bounds: ListingBounds | None = None) -> S3Store:
    """A store that makes up for what fails for no longer than a test may take."""
    requests = S3Requests(RetryPolicy(seconds=20.0, attempt_seconds=20.0))
    return S3Store(requests) if bounds is None else S3Store(requests, lambda: bounds)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("html", "an answer that is none of S3: it is no XML"),
        ("bomb", "none of S3: it declares a type of document of its own"),
        ("elements", "none of S3: it has more than 200,000 elements"),
        ("endless", f"none of S3: it has more than {MOST_ANSWER_BYTES:,} bytes"),
        ("endless_error", f"none of S3: it has more than {MOST_ANSWER_BYTES:,} bytes"),
        ("elsewhere", r"answered 307: it sends to http://127.0.0.1:\d+/internal, which is not followed. Set AWS_END"),
    ],
)
def test_a_list_that_is_none_is_an_error_at_once(kind: str, said: str, stray: StrayStore) -> None:
    stray.kind = kind
    with pytest.raises(OSError, match=said) as caught:
        store_of().children(URL)
    assert not isinstance(caught.value, NoAnswerError)
    # botocore asks once more whether the bucket is in another region.
    assert len(stray.requests) <= 2 and "internal" not in " ".join(stray.requests)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"pages": 5}, "It has more pages than are read. Name a folder"),
        ({"letters": 50}, "Its names take too much memory"),
        ({"seconds": 9.5, "clock": functools.partial(next, itertools.count())}, "It has not ended after 9.5 s"),
    ],
)
def test_a_list_without_end_is_read_up_to_a_bound(bounds: dict[str, Any], said: str, stray: StrayStore) -> None:
    stray.kind = "more"
    with pytest.raises(OSError, match=said):
        store_of(ListingBounds(**bounds)).matching(f"{URL}/**")
    assert 5 <= len(stray.requests) <= 20  # A slow one is asked for again.


def test_every_list_has_a_bound(stray: StrayStore) -> None:
    stray.kind = "more"
    assert (ListingBounds().pages, ListingBounds().letters, ListingBounds().seconds) == (10_000, 256 << 20, 600)
    for act in ("children", "matching", "remove_below"):
        with pytest.raises(OSError, match="more pages than are read"):
            getattr(store_of(ListingBounds(pages=2)), act)(URL)


@pytest.mark.parametrize(
    ("names", "token", "said"),
    [
        (["x" * MOST_NAME_BYTES], None, None),
        (["x" * (MOST_NAME_BYTES + 1)], None, "a name of more than 1,024 bytes"),
        (["é" * MOST_NAME_BYTES], None, "a name of more than 1,024 bytes"),
        ([], "", "no end"),
        ([], 7, "no end"),
        ([], "x" * (MOST_TOKEN_LETTERS + 1), "no end"),
        ([], "again", "no end"),
        ([], "next", None),
    ],
)
def test_what_a_page_may_be(names: list[str], token: object, said: str | None) -> None:
    bounds = ListingBounds()
    assert bounds.fault([], "again") is None
    fault = bounds.fault(names, token)
    assert fault == said or (said is not None and fault is not None and said in fault)


@pytest.mark.parametrize(("names", "fault"), [(4, "It would have no end: 1,000 pages have 4,000 names"), (5, None)])
def test_a_long_list_has_names_in_its_pages(names: int, fault: str | None) -> None:
    bounds = ListingBounds(clock=lambda: 0.0)
    faults = [bounds.fault(["name"] * names, str(page)) for page in range(1000)]
    assert faults == [None] * 999 + [fault]


def test_an_object_is_not_believed_to_have_any_size(stray: StrayStore) -> None:
    stray.kind = "vast"
    with pytest.raises(OSError, match="damaged: the store says that it has 1,125,899,906,842,624 bytes"):
        store_of().open(f"{URL}/a")
    stray.kind = "large"
    with store_of().open(f"{URL}/a") as file, pytest.raises(OSError, match="too many to be read as a whole") as caught:
        file.read()
    assert caught.value.errno == errno.EFBIG
    assert {request.partition(" ")[0] for request in stray.requests} == {"HEAD"}
