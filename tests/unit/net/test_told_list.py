"""Worker lists as hellos tell them: short ones as they are, long ones by their digests."""

from __future__ import annotations

import json

import pytest

from tfdist.cluster import Address, Cluster
from tfdist.net.hello import Hello
from tfdist.net.told_list import LONG_CHARACTERS, count_of, difference, have_same_workers, in_words, told_list


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
