"""Worker lists as hellos tell them: short ones as they are, long ones by their digests."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfdist.cluster import Address, Cluster
from tfdist.net.hello import LONG_CHARACTERS, Hello, count_of, difference, have_same_workers, in_words, told_list
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineBuffer, LineError


def listed(size: int, *, without: int | None = None, swapped: int | None = None) -> Cluster:
    workers = [Address(f"host-{n}.example.org", 20_000) for n in range(size) if n != without]
    if swapped is not None:
        workers[swapped], workers[swapped + 1] = workers[swapped + 1], workers[swapped]
    return Cluster(tuple(workers))


@pytest.mark.parametrize("size", [2, 100, 170, 200, 1000, 10_000])
def test_equal_lists_are_told_alike_and_in_few_bytes(size: int) -> None:
    told = told_list(listed(size))
    assert told == told_list(listed(size)) and count_of(told) == size
    assert len(told) < LONG_CHARACTERS
    assert in_words(told).count(str(size)) or size < 200


@pytest.mark.parametrize("size", [3, 1000])
def test_another_order_is_told_from_other_workers(size: int) -> None:
    mine = told_list(listed(size))
    turned, other = told_list(listed(size, swapped=1)), told_list(listed(size, without=1))
    assert mine not in (turned, other)
    assert have_same_workers(mine, turned) and not have_same_workers(mine, other)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (listed(1000, swapped=70), "one of the workers 64 to 127"),
        (listed(1000, without=0), "one of the workers 0 to 63"),
        (listed(1000, without=999), "one of the workers 960 to 1023"),
        (listed(1024), "one of the workers 960 to 1023"),
        (listed(1088), "one of the workers 960 to 1023"),
    ],
)
def test_where_long_lists_differ_is_told(there: Cluster, says: str) -> None:
    text = difference(told_list(listed(1000)), told_list(there))
    assert says in text and f"there: {len(there)} workers" in text and len(text) < 500


def test_short_lists_are_shown_and_a_long_one_beside_them_is_counted() -> None:
    text = difference(told_list(listed(2)), told_list(listed(1000)))
    assert "here: host-0.example.org:20000,host-1.example.org:20000\n" in text and "there: 1000 workers (SHA" in text


@pytest.mark.parametrize(
    "told",
    [
        "digests:0:" + "0" * 64 + ":" + "0" * 64 + ":" + "0" * 8,
        "digests:1000:" + "0" * 64 + ":" + "0" * 64 + ":" + "0" * 8,  # too few blocks
        "digests:99999999:" + "0" * 64 + ":" + "0" * 64 + ":" + "0" * 8,
        "digests:1:0:0:0",
    ],
)
def test_what_tells_no_digests_is_a_list_of_one_strange_worker(told: str) -> None:
    assert count_of(told) == 1 and in_words(told) == told
    assert "there: digests" in difference(told_list(listed(1000)), told)


def test_the_hello_of_a_large_job_is_short_and_knows_its_workers() -> None:
    hello = Hello.own(listed(10_000), (9_999,))
    message = json.dumps(hello.to_message())
    assert len(message) < 2500 and Hello.from_message(json.loads(message)) == hello


VERSIONS = {"python": "3.11", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}
MINE = Hello("m", "host-a", "a:1,b:1,c:1", (0,), VERSIONS)
THEIRS = Hello("t", "host-b", "a:1,b:1,c:1", (1,), VERSIONS)


def test_a_hello_goes_over_the_line() -> None:
    assert Hello.from_message(THEIRS.to_message(link=True)) == THEIRS


@pytest.mark.parametrize("message", [{}, {"hello": 1}, {"hello": "x"}, {"hello": []}, {"hello": {}}])
def test_a_message_that_is_not_a_hello_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        Hello.from_message(message)


@pytest.mark.parametrize(
    "changed",
    [
        {"local": []},
        {"local": 1},
        {"local": "12"},
        {"local": [1, 1]},
        {"local": [-1]},
        {"local": [3]},  # of three workers
        {"local": [1.0]},
        {"local": [True]},
        {"local": [[1]]},
        {"host": "\x1b]0;title\x07"},  # for the terminal
        {"host": "two\nlines"},
        {"host": None},
        {"cluster": ["a:1"]},
        {"launcher": {}},
        {"launcher": "\x07"},
        {"versions": []},
        {"versions": {"keras": 3}},
        {"versions": {"keras": "\x1b[2J"}},
        {"protocol": "1"},
        {"protocol": True},
    ],
)
def test_a_hello_with_impossible_values_is_refused(changed: dict[str, Any]) -> None:
    hello = {**THEIRS.to_message()["hello"], **changed}
    with pytest.raises(LineError):
        Hello.from_message({"hello": hello})


def test_versions_are_known_without_importing_anything() -> None:
    found = Hello.own(Cluster.parse("a:1,b:1"), (0,)).versions
    assert set(found) == set(VERSIONS)
    assert found["tensorflow"] != "unknown"


def test_versions_that_differ_are_named() -> None:
    older = dataclasses.replace(THEIRS, versions={"python": "3.11", "tfdist": "0.1.0", "keras": "3.14.0"})
    assert MINE.version_differences(THEIRS) == []
    assert MINE.version_differences(older) == [("keras", "3.15.1", "3.14.0"), ("tensorflow", "2.21.0", None)]
    assert older.version_differences(MINE) == [("keras", "3.14.0", "3.15.1"), ("tensorflow", None, "2.21.0")]


def test_a_hello_of_thousands_of_workers_is_heard() -> None:
    cluster = Cluster.parse(",".join(f"machine-{n:04}.of-a-cluster.example.org:20000" for n in range(4096)))
    local = tuple(range(4088, 4096))
    line = json.dumps(Hello.own(cluster, local).to_message(link=True)).encode() + b"\n"
    (message,) = LineBuffer(MAX_HELLO_BYTES).feed(line)
    assert Hello.from_message(message).local == local
