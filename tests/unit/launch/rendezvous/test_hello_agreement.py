from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.net.hello import PROTOCOL, Hello

VERSIONS = {"python": "3.11", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}
MINE = Hello("m", "host-a", "a:1,b:1,c:1", (0,), VERSIONS)
THEIRS = Hello("t", "host-b", "a:1,b:1,c:1", (1,), VERSIONS)


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
        ({"protocol": PROTOCOL + 1}, None, "another version of tfdist"),
        ({"local": (0,)}, None, "started twice: here and by the launcher on host-b"),
        ({"local": (2,)}, 1, "starts worker(s) 2"),
        ({"sender": "m"}, 1, "leads back to this machine"),
    ],
)
def test_what_does_not_fit_is_found(changed: dict[str, Any], reached: int | None, says: str | None) -> None:
    found = disagreement(MINE, dataclasses.replace(THEIRS, **changed), reached)
    assert (found is None) == (says is None)
    assert says is None or says in (found or "")
