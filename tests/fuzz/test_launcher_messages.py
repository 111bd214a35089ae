"""What launchers and workers say to one another, as it should not be: the one that hears it goes on, or hangs up."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.chunks import ENDS, deliver, end, pieces
from tests.fuzz.hostile_values import changed, changed_json, numbers, values
from tests.fuzz.properties import fuzzed
from tests.helpers.launch_fakes import beat, state
from tests.helpers.scripted_attempt import run_attempt
from tests.helpers.waiting import until
from tfdist.errors import FormingError, RunDirError
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.job_terms import check_agreement
from tfdist.launch.peers.messages import (
    AttemptEnded,
    BatchesBegun,
    Beat,
    DumpStacks,
    Event,
    GiveUp,
    Hold,
    Posted,
    Released,
    Restart,
    Stop,
    StopAt,
    StopRequested,
    WorkerDone,
    WorkerStacks,
    from_message,
    to_message,
)
from tfdist.launch.peers.peer_links import PeerLink, PeerLinks
from tfdist.launch.run_dir.closing_report import render_report, render_restart
from tfdist.launch.run_dir.run_location import join_run_location
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.launcher_channel import ChiefPost, LauncherChannel
from tfdist.net.line_socket import LineBuffer, LineError, LineSocket
from tfdist.rundir.failure import Failure
from tfdist.training.supervision.stop_requests import StopRequests

STOP = Stop(143, "SIGTERM to the launcher on a")
FAILURE = from_signal(1, 9)
EVENTS: tuple[Event, ...] = (
    WorkerDone(1, 0, True),
    Released(0),
    AttemptEnded((FAILURE,), None, (1,)),
    AttemptEnded((), STOP),
    Beat(state(1, 5)),
    DumpStacks(),
    WorkerStacks(1, "train.py line 3", "File x", "load", "log"),
    StopRequested(STOP),
    Posted("a", {"worker": 1}),
    Hold(STOP),
    BatchesBegun(1, 7),
    StopAt(8),
    Restart(1, 1.0, "why"),
    GiveUp("why"),
)
PEER = [*map(to_message, EVENTS), {"settle": [FAILURE.to_dict()]}, {"settle": []}]
PEER = json.loads(json.dumps(PEER))
WORKER = [
    beat(3),
    {"begun": 3},
    {"begun": None},
    {"stacks": "File x", "where": "train.py line 3 in main", "called": ""},
    {"signal": 15},
    {"post": {"subject": "a", "content": {"worker": 1}}},
    {"finished": 0},
    {"failed": FAILURE.to_dict()},
]
WORKER = json.loads(json.dumps(WORKER))
LETTER = {"subject": "a", "content": {}}
LAUNCHER = [{"post": LETTER}, {"hold": True}, {"stop": {"after": 5, "code": 143}}, {"dump": True}, {"release": True}]
GO = {"run_dir": "a", "seed": 7, "attempt": 0, "job": "j", "settings": {"fit.epochs": 3}, "options": {"a": "b"}}


def lines(strategy: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(strategy, min_size=1, max_size=4).map(lambda messages: b"\n".join([*messages, b""]))


@fuzzed(40, data=lines(changed_json(*PEER)) | lines(changed_json(*WORKER)) | st.binary(max_size=300))
def test_lines_are_messages_or_refused(data: bytes) -> None:
    with contextlib.suppress(LineError):
        for message in LineBuffer().feed(data):
            json.dumps(message)
            repr(message)
            event = from_message(message)
            if event is not None:
                assert from_message(json.loads(json.dumps(to_message(event)))) == event or "NaN" in repr(message)


@fuzzed(25, parts=pieces(lines(changed_json(*PEER))), how=ENDS, leads=st.booleans())
def test_a_launcher_hears_whatever_another_says(parts: list[bytes], how: str, leads: bool) -> None:
    ours, theirs = socket.socketpair()
    links = PeerLinks([PeerLink(LineSocket(ours), "b", (1,), ("b:1",))], leads=leads, remote=(1,))
    heard: list[Event] = []
    with theirs, contextlib.closing(links):
        deliver(theirs, parts, lambda: heard.extend(links.events()))
        end(theirs, how)
        heard += links.events()
        if how in ("whole", "reset"):
            until(lambda: heard.extend(links.events()) or not links.is_connected())
            failures = links.settle([FAILURE], 10.0)
            render_report(RunResult(4, failures), verbose=True)
    for event in heard:
        to_message(event)


@fuzzed(15, said=st.lists(changed(PEER[:-2][0]) | st.sampled_from(PEER) | st.one_of(*map(changed, PEER)), max_size=4),
        leads=st.booleans())  # fmt: skip
def test_an_attempt_goes_on_whatever_other_launchers_say(said: list[Any], leads: bool) -> None:
    events = []
    for message in said:
        with contextlib.suppress(LineError):
            event = from_message(message) if isinstance(message, dict) else None
            events += [] if event is None else [event]
    worker = {"says": [(1.0, beat(3)), (20.0, {"finished": 0})], "ends": (60.0, 0)}
    script = [*((2.0, event) for event in events), (50.0, AttemptEnded((FAILURE,)))]
    ran = run_attempt(worker, leads=leads, remote=(1,), script=script)
    render_report(ran.result, verbose=True)
    for event in events:
        if isinstance(event, Restart):
            render_restart(ran.result, event)


@fuzzed(15, said=st.lists(st.one_of(*map(changed, WORKER)), min_size=1, max_size=4))
def test_an_attempt_goes_on_whatever_a_worker_says(said: list[Any]) -> None:
    messages = [message for message in said if isinstance(message, dict)]
    says = [(1.0 + place, message) for place, message in enumerate(messages)]
    told = next((message["failed"] for message in messages if "failed" in message), None)
    ran = run_attempt({"says": says, "ends": (30.0, 1)}, {"says": [(1.0, beat(3))], "ends": (30.0, 0)})
    render_report(ran.result, verbose=True)
    if told is not None:
        with contextlib.suppress(RunDirError):
            Failure.from_dict(told)


@fuzzed(15, parts=pieces(lines(changed_json(*LAUNCHER)) | st.binary(max_size=100)))
def test_a_worker_hears_whatever_its_launcher_says(parts: list[bytes]) -> None:
    """It answers, and ends as soon as its launcher is gone."""
    ours, theirs = socket.socketpair()
    lost, stops = threading.Event(), StopRequests(30.0)
    handlers = {
        "hold": lambda _: {"begun": stops.hold()},
        "stop": lambda told: stops.stop(told["after"], told["code"]),
        "dump": lambda _: {"stacks": "", "where": ""},
        "post": ChiefPost().deliver,
    }
    channel = LauncherChannel(theirs.detach(), on_lost=lost.set, handlers=handlers)
    channel.watch()
    watcher = channel._watcher
    assert watcher is not None

    def hear() -> None:
        """Takes what is answered, as a launcher does; sends nothing to a worker that reads no more."""
        with contextlib.suppress(OSError):
            ours.recv(1 << 16)
        if not watcher.is_alive():
            ours.shutdown(socket.SHUT_RDWR)

    with ours:
        deliver(ours, parts, hear)
    watcher.join(60)
    assert not watcher.is_alive() and (lost.is_set() or channel._released.is_set())


@fuzzed(25, go=changed(GO), mine=st.sampled_from([None, {"fit.epochs": 3}]))
def test_what_the_chief_hands_out_is_used_or_refused(go: Any, mine: Any, tmp_path: Path) -> None:
    if not isinstance(go, dict):
        return
    with contextlib.suppress(FormingError, RunDirError):
        join_run_location(go, str(tmp_path / "a"), name="n", overwrite=True, patience=0.0)
    with contextlib.suppress(FormingError):
        check_agreement(go, mine, {"a": "b"})


@fuzzed(25, content=changed(FAILURE.to_dict()) | values, code=numbers)
def test_a_failure_is_told_whatever_a_file_says(content: Any, code: int) -> None:
    with contextlib.suppress(RunDirError):
        failure = Failure.from_dict(content)
        report = render_report(RunResult(4, (failure,)), verbose=True)
        assert isinstance(report, str)
