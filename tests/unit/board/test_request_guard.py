from __future__ import annotations

import pytest

from tfdist.board.request_guard import HEADERS, Guard

LOOPBACK = Guard("127.0.0.1", 4000, "secret")


def status(guard: Guard, host: str = "127.0.0.1:4000", method: str = "GET", given: str | None = None) -> int | None:
    refusal = guard.refusal(method, host, given, None)
    return None if refusal is None else refusal.status


def test_the_token_is_in_the_address_or_in_the_cookie() -> None:
    assert status(LOOPBACK) == 403
    for wrong in ("", "secre", "secrets", "s\xe9cret", "\udcff"):
        assert status(LOOPBACK, given=wrong) == 403
        assert LOOPBACK.refusal("GET", "localhost", None, wrong) is not None
    assert status(LOOPBACK, given="secret") is None
    assert LOOPBACK.refusal("HEAD", "localhost:80", None, "secret") is None
    assert LOOPBACK.url == "http://127.0.0.1:4000/?token=secret"
    assert "secret" not in repr(LOOPBACK)


def test_tokens_are_long_and_of_one_board_each() -> None:
    first, second = Guard("127.0.0.1", 1), Guard("127.0.0.1", 1)
    assert first.token != second.token and len(first.token) >= 32
    assert first.cookie != Guard("127.0.0.1", 2).cookie


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_nothing_is_changed(method: str) -> None:
    refusal = LOOPBACK.refusal(method, "127.0.0.1", "secret", None)
    assert refusal is not None and (refusal.status, refusal.headers) == (405, {"Allow": "GET, HEAD"})


@pytest.mark.parametrize(
    ("host", "name", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1:4000", True),
        ("127.0.0.1", "localhost:8080", True),  # as `ssh -L` with another port
        ("127.0.0.1", "[::1]:4000", True),
        ("127.0.0.1", "evil.example:4000", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "10.0.0.1:4000", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "10.0.0.1:4000", True),  # a number is in no name server
        ("0.0.0.0", "evil.example", False),
        ("::", "[fd00::1]:4000", True),
    ],
)
def test_another_sites_name_does_not_lead_here(host: str, name: str, is_own: bool) -> None:
    assert (status(Guard(host, 4000, "secret"), name, given="secret") is None) == is_own


def test_addresses_that_can_be_opened() -> None:
    assert Guard("0.0.0.0", 1, "t").url == "http://127.0.0.1:1/?token=t"
    assert Guard("::", 1, "t").url == "http://[::1]:1/?token=t"
    assert Guard("fd00::1", 1, "t").url == "http://[fd00::1]:1/?token=t"


def test_the_browser_runs_nothing_of_others() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "http" not in policy and "default-src 'none'" in policy
