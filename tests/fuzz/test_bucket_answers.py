"""Answers of stores that speak something like S3: lists, statuses, contents and errors of any kind."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed
from tests.fuzz.properties import fuzzed
from tfdist.storage.s3_errors import S3Fault, fault_of
from tfdist.storage.s3_requests import S3Requests
from tfdist.storage.s3_store import S3Store

URL = "s3://bucket/run"
PAGE: dict[str, Any] = {
    "Contents": [{"Key": "run/a"}, {"Key": "run/b/c"}],
    "CommonPrefixes": [{"Prefix": "run/b/"}],
    "IsTruncated": True,
    "NextContinuationToken": "more",
}
STATUS: dict[str, Any] = {"ContentLength": 7, "ETag": "x", "LastModified": datetime.datetime(2026, 1, 1)}
ERROR: dict[str, Any] = {
    "Error": {"Code": "SlowDown", "Message": "slower"},
    "ResponseMetadata": {"HTTPStatusCode": 503},
}


class Answers(S3Requests):
    """Requests that are answered by what is given, in turn, and by the last of it for ever."""

    def __init__(self, answers: list[Any], content: bytes = b"") -> None:
        super().__init__()
        self._answers, self._content, self.count = answers, content, 0

    def call(self, url: str, method: str, **arguments: Any) -> dict[str, Any]:
        """The next answer."""
        answer = self._answers[min(self.count, len(self._answers) - 1)]
        self.count += 1
        assert self.count < 100, "there is no end"
        return answer if isinstance(answer, dict) else {}

    def content(self, url: str, size: int, **arguments: Any) -> bytes:
        """The content, whatever was asked for."""
        return self._content


@fuzzed(60, pages=st.lists(changed(PAGE), min_size=1, max_size=4))
def test_a_list_is_an_error_or_names_below_the_url(pages: list[Any]) -> None:
    with contextlib.suppress(OSError):
        assert all(name and "/" not in name for name in S3Store(Answers(pages)).children(URL) if name != "b/c")
    with contextlib.suppress(OSError):
        assert all(found.startswith(f"{URL}/") for found in S3Store(Answers(pages)).matching(f"{URL}/**"))
    with contextlib.suppress(OSError):
        S3Store(Answers(pages)).remove_below(URL)


@fuzzed(60, status=changed(STATUS), content=st.binary(max_size=20))
def test_an_object_is_an_error_or_as_long_as_it_says(status: Any, content: bytes) -> None:
    store = S3Store(Answers([status], content))
    with contextlib.suppress(OSError):
        said = store.status(URL)
        with store.open(URL) as file:
            assert len(file.read()) == max(said.size, 0)


@fuzzed(60, answer=changed(ERROR))
def test_an_error_always_means_something(answer: Any) -> None:
    error = OSError("by the store")
    error.response = answer  # type: ignore[attr-defined]
    fault = fault_of(error, "http://store")
    assert isinstance(fault, S3Fault) and fault.number > 0 and fault.text
