"""Stores that are slow, fail, throttle, lose answers or refuse: what is tried again, for how long, and what is said."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

import pytest

from tests.clusters.buckets.conftest import requests_to
from tests.clusters.buckets.faulty_proxy import Fault, FaultyProxy
from tests.clusters.buckets.stores import RunningStore
from tests.helpers.ports import free_ports
from tfdist.storage.object_store import NoAnswerError
from tfdist.storage.s3_requests import S3Requests
from tfdist.storage.s3_store import S3Store

QUICK = {"first_wait": 0.01, "longest_wait": 0.02}
AGAIN = [
    Fault(status=503, code="SlowDown"),
    Fault(status=500, code="InternalError"),
    Fault(status=429, code="TooManyRequests"),
    Fault(status=502),
    Fault(cut_after=3),
    Fault(lost=True),
]


@pytest.fixture
def through(proxy: FaultyProxy, moto: RunningStore, monkeypatch: pytest.MonkeyPatch) -> tuple[S3Store, str]:
    """A store behind the proxy, and a place in it."""
    return S3Store(requests_to(proxy.endpoint, monkeypatch, **QUICK)), f"s3://{moto.new_bucket()}/run"


def acts(store: S3Store, url: str) -> dict[str, Callable[[], object]]:
    """What is done with a store, by the method of the request."""
    return {
        "PUT": lambda: store.write(f"{url}/b", b"other content"),
        "GET": lambda: store.open(f"{url}/a").read(),
        "HEAD": lambda: store.status(f"{url}/a").size,
        "LIST": lambda: store.children(url),
        "DELETE": lambda: store.remove(f"{url}/b"),
    }


@pytest.mark.parametrize("fault", AGAIN, ids=str)
@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "LIST", "DELETE"])
def test_what_passes_is_tried_again(
    method: str, fault: Fault, through: tuple[S3Store, str], proxy: FaultyProxy
) -> None:
    store, url = through
    store.write(f"{url}/a", b"content")
    before = len(proxy.requests)
    proxy.fails_first(3, fault, "list-type" if method == "LIST" else method)
    act = acts(store, url)[method]
    expected = {"GET": b"content", "HEAD": 7, "LIST": ["a"]}.get(method)
    has_body = method in ("GET", "LIST") or fault.cut_after is None
    assert act() == expected
    assert len(proxy.requests) - before == (4 if has_body else 1) + (method == "GET")


def test_it_is_given_up_after_so_many_attempts(through: tuple[S3Store, str], proxy: FaultyProxy) -> None:
    store, url = through
    store.write(f"{url}/a", b"content")
    proxy.fails_first(1000, Fault(status=503, code="SlowDown"))
    with pytest.raises(NoAnswerError, match="answered 503 SlowDown, .* [(]gave up after 20 attempts in") as caught:
        store.children(url)
    assert caught.value.errno == errno.EREMOTEIO and caught.value.filename == url


def test_a_store_that_never_answers_is_waited_for_no_longer_than_the_bound(
    proxy: FaultyProxy, moto: RunningStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store(requests_to(proxy.endpoint, monkeypatch, seconds=1.5, attempt_seconds=0.5))
    url = f"s3://{moto.new_bucket()}/run"
    proxy.decide = lambda method, path: Fault(seconds=30)
    begun = time.monotonic()
    # Where the machine is busy, the bound may end while the client is still made, which has no address yet.
    said = "no answer from (http://127.0.0.1.*|the store) .*Check AWS_ENDPOINT_URL"
    with pytest.raises(NoAnswerError, match=said) as caught:
        store.write(f"{url}/a", b"content")
    assert caught.value.errno == errno.ETIMEDOUT
    assert time.monotonic() - begun < 10


def test_a_slow_store_is_waited_for(through: tuple[S3Store, str], proxy: FaultyProxy) -> None:
    store, url = through
    proxy.decide = lambda method, path: Fault(seconds=0.3)
    store.write(f"{url}/a", b"content")
    with store.open(f"{url}/a") as file:
        assert file.read() == b"content"
    assert len(proxy.requests) == 3


@pytest.mark.parametrize(
    ("status", "code", "number", "said"),
    [
        (403, "AccessDenied", errno.EACCES, "403 AccessDenied: forbidden. Let these credentials list, read, write"),
        (403, "InvalidAccessKeyId", errno.EACCES, "does not know this access key. Set AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", errno.EACCES, "the secret key is not that of this access key"),
        (403, "RequestTimeTooSkewed", errno.EACCES, "this machine's clock is not the store's. Set it"),
        (400, "ExpiredToken", errno.EACCES, "the credentials have expired. Get new ones"),
        (404, "NoSuchBucket", errno.EREMOTEIO, "there is no such bucket. Make it, or correct the URL"),
        (400, "AuthorizationHeaderMalformed", errno.EREMOTEIO, "in another region. Set AWS_DEFAULT_REGION"),
        (507, "QuotaExceeded", errno.ENOSPC, "the quota of the bucket is used up"),
        (400, "Unheard", errno.EREMOTEIO, "answered 400 Unheard: by the proxy"),
    ],
)
def test_what_does_not_pass_is_said_at_once(
    status: int, code: str, number: int, said: str, through: tuple[S3Store, str], proxy: FaultyProxy
) -> None:
    store, url = through
    proxy.fails_first(1000, Fault(status=status, code=code))
    with pytest.raises(OSError) as caught:
        store.children(url)
    assert not isinstance(caught.value, NoAnswerError)
    assert caught.value.errno == number and said in str(caught.value) and "secret" not in str(caught.value).replace(
        "the secret key", ""
    )
    assert len(proxy.requests) == 1


def test_a_wrong_address_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    begun = time.monotonic()
    for endpoint in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid"):
        store = S3Store(requests_to(endpoint, monkeypatch))
        with pytest.raises(NoAnswerError, match=f"no whole answer from {endpoint} .*after 5 attempts") as caught:
            store.children("s3://bucket/run")
        assert caught.value.errno == errno.EREMOTEIO
    assert time.monotonic() - begun < 60


def test_a_password_in_the_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    store = S3Store(requests_to(f"http://me:hidden@127.0.0.1:{port}", monkeypatch, first_wait=0.01))
    with pytest.raises(OSError) as caught:
        store.children("s3://bucket/run")
    assert f"127.0.0.1:{port}" in str(caught.value) and "hidden" not in str(caught.value)


def test_without_credentials_it_says_what_to_set(moto: RunningStore, monkeypatch: pytest.MonkeyPatch) -> None:
    requests_to(moto.endpoint, monkeypatch)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(OSError, match="no credentials for S3 were found .*Set AWS_ACCESS_KEY_ID and") as caught:
        S3Store(S3Requests()).children("s3://bucket/run")
    assert caught.value.errno == errno.EACCES


def test_a_large_object_whose_parts_fail_is_whole_or_absent(
    through: tuple[S3Store, str], proxy: FaultyProxy, moto: RunningStore
) -> None:
    store, url = through
    content = bytes(17 << 20)
    proxy.fails_first(3, Fault(status=500, code="InternalError"), "partNumber")
    store.write(f"{url}/a", content)
    assert store.status(f"{url}/a").size == len(content)
    proxy.fails_first(1000, Fault(status=403, code="AccessDenied"), "partNumber=2")
    with pytest.raises(PermissionError):
        store.write(f"{url}/b", content)
    bucket = url.split("/")[2]
    assert moto.names(bucket) == ["run/a"]
    assert "Uploads" not in moto.client().list_multipart_uploads(Bucket=bucket)
