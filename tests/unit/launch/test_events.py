from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.launch.fakes import state
from tfdist.launch import events
from tfdist.launch.events import Event, from_message, to_message
from tfdist.launch.failures import from_signal
from tfdist.launch.lines import LineError

STOP = events.Stop(143, "SIGTERM")
EVENTS: list[Event] = [
    events.Done(1, 0, True),
    events.Released(3),
    events.Ended((from_signal(1, 9, last_lines=("a",)),), None, (1, 2)),
    events.Ended(stop=STOP),
    events.Beat(state(2, 7, limit=600.0)),
    events.Dump(),
    events.Stacks(1, "train.py line 3", "text", "data.py line 120", "/log"),
    events.StopAsked(STOP),
    events.Hold(STOP),
    events.Begun(1, 7),
    events.Begun(1, None),
    events.StopAt(8),
    events.Restart(2, 4.0, "why"),
    events.GiveUp("why"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_come_over_the_line(event: Event) -> None:
    assert from_message(json.loads(json.dumps(to_message(event)))) == event


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


def test_other_messages_are_no_events() -> None:
    assert from_message({"settle": []}) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "Explode"},
        {"event": ["Done"]},
        {"event": "Done", "index": 1},
        {"event": "Done", "index": "x", "code": 0, "gone": False},
        {"event": "Beat", "state": {"index": 1}},
        {"event": "Released", "code": 0, "more": 1},
        {"event": "Ended", "failures": 3, "stop": None, "blamed": []},
    ],
)
def test_what_is_not_understood_is_an_error(message: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        from_message(message)
