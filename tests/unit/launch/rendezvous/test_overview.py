from __future__ import annotations

import json

import pytest

from tfdist.launch.rendezvous.overview import Overview
from tfdist.net.line_socket import LineError, Message

OVERVIEW = Overview("a", "2 of 3 workers are here", 1, ("  worker 2 (c:20000) refuses the connection",))


def test_an_overview_comes_as_it_was_sent() -> None:
    said = json.loads(json.dumps(OVERVIEW.to_message()))
    assert Overview.from_message(said["overview"]) == OVERVIEW


def test_long_and_strange_texts_are_clipped_before_they_are_sent() -> None:
    clipped = Overview.clipped("a", "x" * 10_000, 3, ["\x1b[2J" + "y" * 10_000] * 500)
    assert len(clipped.waiting) == 2000 and len(clipped.lines) == 64
    assert clipped.lines[0].startswith("?[2Jyyy") and len(clipped.lines[0]) == 2000


@pytest.mark.parametrize(
    "changed",
    [
        {"host": 7},
        {"waiting": None},
        {"waiting": "\x1b[2J"},
        {"missing": -1},
        {"missing": "1"},
        {"lines": 7},
        {"lines": [7]},
        {"lines": ["x"] * 1000},
        {"lines": ["x" * 100_000]},
    ],
)
def test_what_is_no_overview_is_refused(changed: Message) -> None:
    with pytest.raises(LineError, match="an overview that is not understood"):
        Overview.from_message({**OVERVIEW.to_message()["overview"], **changed})
