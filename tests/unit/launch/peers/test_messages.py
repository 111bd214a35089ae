from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.helpers.launch_fakes import state
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.peers import messages
from tfdist.launch.peers.messages import Event, from_message, to_message
from tfdist.net.line_socket import LineError

STOP = messages.Stop(143, "SIGTERM")
EVENTS: list[Event] = [
    messages.WorkerDone(1, 0, True),
    messages.Released(3),
    messages.AttemptEnded((from_signal(1, 9, last_lines=("a",)),), None, (1, 2)),
    messages.AttemptEnded(stop=STOP),
    messages.Beat(state(2, 7, limit=600.0)),
    messages.DumpStacks(),
    messages.WorkerStacks(1, "train.py line 3", "text", "data.py line 120", "/log"),
    messages.StopRequested(STOP),
    messages.Hold(STOP),
    messages.BatchesBegun(1, 7),
    messages.Posted("a part", {"worker": 1, "bytes": 7}),
    messages.BatchesBegun(1, None),
    messages.StopAt(8),
    messages.Restart(2, 4.0, "why"),
    messages.GiveUp("why"),
    messages.Stopped(messages.Stop(4, "SIGTERM", "advice")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_go_over_the_line(event: Event) -> None:
    assert from_message(json.loads(json.dumps(to_message(event)))) == event


def test_every_kind_of_event_is_tested() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


def test_other_messages_are_not_events() -> None:
    assert from_message({"settle": []}) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "Explode"},
        {"event": ["WorkerDone"]},
        {"event": "WorkerDone", "index": 1},
        {"event": "WorkerDone", "index": "x", "code": 0, "gone": False},
        {"event": "Beat", "state": {"index": 1}},
        {"event": "Released", "code": 0, "more": 1},
        {"event": "AttemptEnded", "failures": 3, "stop": None, "blamed": []},
        {"event": "Released", "code": math.inf},
        {"event": "Restart", "attempt": 1, "delay": math.nan, "why": ""},
        {"event": "Restart", "attempt": 1, "delay": math.inf, "why": ""},
        {"event": "Restart", "attempt": 1, "delay": 10**400, "why": ""},
        {"event": "Beat", "state": {**state(1, 7).to_dict(), "step": "seven"}},
        {"event": "Beat", "state": {**state(1, 7).to_dict(), "index": []}},
    ],
)
def test_an_unknown_event_is_an_error(message: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        from_message(message)
