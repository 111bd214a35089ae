from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tfdist.cluster import Cluster
from tfdist.net.hello import Hello, disagreement
from tfdist.net.line_socket import LineError

VERSIONS = {"python": "3.11", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}
MINE = Hello("m", "host-a", "a:1,b:1,c:1", (0,), VERSIONS)
THEIRS = Hello("t", "host-b", "a:1,b:1,c:1", (1,), VERSIONS)


def test_a_hello_goes_over_the_line() -> None:
    assert Hello.from_message(THEIRS.to_message(link=True)) == THEIRS


@pytest.mark.parametrize("message", [{}, {"hello": 1}, {"hello": "x"}, {"hello": []}, {"hello": {}}])
def test_what_is_no_hello_is_refused(message: dict[str, Any]) -> None:
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
        {"versions": []},
        {"versions": {"keras": 3}},
        {"versions": {"keras": "\x1b[2J"}},
        {"protocol": "1"},
        {"protocol": True},
    ],
)
def test_a_hello_that_does_not_hold_together_is_refused(changed: dict[str, Any]) -> None:
    hello = {**THEIRS.to_message()["hello"], **changed}
    with pytest.raises(LineError):
        Hello.from_message({"hello": hello})


def test_versions_are_known_without_importing_anything() -> None:
    found = Hello.own(Cluster.parse("a:1,b:1"), (0,)).versions
    assert set(found) == set(VERSIONS)
    assert found["tensorflow"] != "unknown"


@pytest.mark.parametrize(
    ("changed", "reached", "says"),
    [
        ({}, None, None),
        ({}, 1, None),
        ({"cluster": "a:1,c:1,d:1"}, None, "another worker list"),
        ({"cluster": "a:1,c:1,b:1"}, None, "the workers in another order"),
        ({"versions": {**VERSIONS, "keras": "3.14.0"}}, None, "keras 3.15.1 here and 3.14.0 there"),
        ({"versions": {**VERSIONS, "tfdist": "0.2.0"}}, None, "tfdist 0.1.0 here and 0.2.0 there"),
        ({"versions": {**VERSIONS, "tensorflow": "2.20.0"}}, 1, "tensorflow 2.21.0 here and 2.20.0 there"),
        ({"versions": {}}, None, "python 3.11 here and None there"),
        ({"protocol": 2}, None, "another version of tfdist"),
        ({"local": (0,)}, None, "started twice: here and by the launcher on host-b"),
        ({"local": (2,)}, 1, "starts worker(s) 2"),
        ({"launcher": "m"}, 1, "leads back to this machine"),
    ],
)
def test_what_does_not_fit_is_found(changed: dict[str, Any], reached: int | None, says: str | None) -> None:
    found = disagreement(MINE, dataclasses.replace(THEIRS, **changed), reached)
    assert (found is None) == (says is None)
    assert says is None or says in (found or "")
