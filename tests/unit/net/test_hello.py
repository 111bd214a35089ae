from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfdist.cluster import Cluster
from tfdist.net.hello import Hello
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineBuffer, LineError

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
