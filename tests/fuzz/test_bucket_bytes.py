"""Bytes of stores that speak something like HTTP: heads, bodies, lengths, lists and redirects of any kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_bytes
from tests.fuzz.properties import fuzzed
from tests.fuzz.raw_store import RawStore, raw_store
from tfdist.storage.s3_requests import RetryPolicy, S3Requests
from tfdist.storage.s3_store import S3Store

URL = "s3://bucket/run"
LIST = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken><KeyCount>2</KeyCount>"
    b"<Contents><Key>run/a%20b</Key><Size>1</Size></Contents><EncodingType>url</EncodingType>"
    b"<Contents><Key>run/b/c</Key></Contents><CommonPrefixes><Prefix>run/b/</Prefix></CommonPrefixes>"
    b"</ListBucketResult>"
)
ERROR = b"<Error><Code>SlowDown</Code><Message>slower</Message><BucketRegion>eu-west-1</BucketRegion></Error>"
HEAD = (
    b'HTTP/1.1 200 OK\r\nETag: "x"\r\nLast-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 5\r\n'
    b"x-amz-bucket-region: us-east-1\r\n\r\n"
)
_BODIES = st.sampled_from((LIST, LIST.replace(b"true", b"false"), ERROR, b"<a>" * 5000, b"{}", b""))
_STATUSES = st.sampled_from((200, 200, 200, 204, 206, 301, 302, 307, 308, 400, 403, 404, 412, 416, 500, 503, 99, 1000))
_LENGTHS = st.sampled_from(("", "0", "3", "-5", "5, 5", "1e9", "+7", str(1 << 50), str(1 << 64), "9" * 400))
_PLACES = st.sampled_from(("", "/run/elsewhere", "file:///etc/passwd", "//127.0.0.1:9/x", "http://[::1", "\xff"))


@st.composite
def heads(draw: st.DrawFn, body: bytes) -> bytes:
    """The head of an answer with a body, or of another one."""
    length = draw(st.just(str(len(body))) | _LENGTHS)
    lines = [f"HTTP/1.1 {draw(_STATUSES)} said"]
    lines += [f"Content-Length: {length}"] if length else draw(st.sampled_from(([], ["Transfer-Encoding: chunked"])))
    lines += draw(st.sampled_from(([], ['ETag: "x"', "Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT"])))
    place = draw(_PLACES)
    lines += [f"Location: {place}"] if place else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


answers = (_BODIES | _BODIES.flatmap(changed_bytes)).flatmap(
    lambda body: st.tuples(heads(body) | heads(body).flatmap(changed_bytes) | changed_bytes(HEAD), st.just(body))
)


@pytest.fixture(scope="module")
def server() -> Iterator[RawStore]:
    """One for all answers, as connecting anew takes longer than all else."""
    with raw_store() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "CONFIG_FILE": "/dev/null"}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_ENDPOINT_URL", found.endpoint)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield found


@pytest.fixture(scope="module")
def store(server: RawStore) -> S3Store:
    """The store, which is asked once."""
    return S3Store(S3Requests(RetryPolicy(seconds=0.5, attempts=1, first_attempts=1, attempt_seconds=0.5)))


def says(server: RawStore, answer: tuple[bytes, bytes]) -> None:
    """Lets the server give an answer from now on."""
    server.head, server.body = answer
    server.paths.clear()


def asked_else(server: RawStore) -> list[str]:
    """The requests that were not for the bucket; a connection that is closed again without one has an empty path."""
    return [path for path in server.paths if path and not path.split("?")[0].startswith("/bucket")]


@fuzzed(30, answer=answers)
def test_a_list_is_an_error_or_names_below_the_url(
    answer: tuple[bytes, bytes], server: RawStore, store: S3Store
) -> None:
    says(server, answer)
    with contextlib.suppress(OSError):
        assert all(name for name in store.children(URL))
    with contextlib.suppress(OSError):
        assert all(found.startswith(f"{URL}/") for found in store.matching(f"{URL}/**"))
    with contextlib.suppress(OSError):
        store.remove_below(URL)
    assert asked_else(server) == []


@fuzzed(30, answer=answers)
def test_an_object_is_an_error_or_as_long_as_it_says(
    answer: tuple[bytes, bytes], server: RawStore, store: S3Store
) -> None:
    says(server, answer)
    with contextlib.suppress(OSError):
        said = store.status(URL)
        with store.open(URL) as file:
            assert len(file.read()) == said.size
    assert asked_else(server) == []


@fuzzed(10, answer=answers)
def test_a_write_is_an_error_or_done(answer: tuple[bytes, bytes], server: RawStore, store: S3Store) -> None:
    says(server, answer)
    with contextlib.suppress(OSError):
        store.write(URL, b"content")
    with contextlib.suppress(OSError):
        store.remove(URL)
    assert asked_else(server) == []
