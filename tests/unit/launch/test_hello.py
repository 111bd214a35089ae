from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tfdist.cluster import Cluster
from tfdist.launch.hello import Hello, disagreement
from tfdist.launch.lines import LineError

VERSIONS = {"python": "3.11", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}
MINE = Hello("m", "host-a", "a:1,b:1,c:1", (0,), VERSIONS)
THEIRS = Hello("t", "host-b", "a:1,b:1,c:1", (1,), VERSIONS)


def test_a_hello_goes_over_the_line() -> None:
    assert Hello.from_message(THEIRS.to_message(link=True)) == THEIRS


@pytest.mark.parametrize("message", [{}, {"hello": 1}, {"hello": {}}, {"hello": {**vars(THEIRS), "local": []}}])
def test_what_is_no_hello_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        Hello.from_message(message)


def test_versions_are_known_without_importing_anything() -> None:
    found = Hello.own(Cluster.parse("a:1,b:1"), (0,)).versions
    assert set(found) == set(VERSIONS)
    assert found["tensorflow"] != "unknown"


@pytest.mark.parametrize(
    ("changed", "reached", "says"),
    [
        ({}, None, None),
        ({}, 1, None),
        ({"cluster": "a:1,c:1,b:1"}, None, "another worker list"),
        ({"versions": {**VERSIONS, "keras": "3.14.0"}}, None, "keras 3.15.1 here and 3.14.0 there"),
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
