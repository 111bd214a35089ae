"""Strangers on every port: whatever they send, in whatever pieces, the forming goes on and meets the right one."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.chunks import ENDS, deliver, end, pieces
from tests.fuzz.hostile_values import changed, changed_json
from tests.fuzz.properties import fuzzed
from tests.helpers.ports import free_ports
from tests.helpers.waiting import until
from tfdist.cluster import Address, Cluster
from tfdist.doctor.mesh.doctor_link import DoctorHello, disagreement, doctor_introduction, leads_elsewhere
from tfdist.doctor.mesh.link_measurement import PINGS, Clocks, Measurement, answer
from tfdist.doctor.mesh.pair import Pair, judge
from tfdist.launch.rendezvous import hello_agreement
from tfdist.launch.rendezvous.followers import Follower, Overview
from tfdist.launch.rendezvous.join_barrier import _given_up
from tfdist.net.connection_attempts import DialStatus
from tfdist.net.connector import Connector
from tfdist.net.handshake import AnswererSide, CallerSide, Introduction
from tfdist.net.hello import Hello, count_of, difference, have_same_workers
from tfdist.net.hello_listener import HelloListener
from tfdist.net.line_socket import LineBuffer, LineError, LineSocket, Message
from tfdist.net.shared_token import Token

CLUSTER = Cluster.parse("a:20000,b:20000")
MINE, THEIRS = Hello.own(CLUSTER, (0,)), Hello.own(CLUSTER, (1,))
TOKEN = Token("secret")
HELLO: dict[str, Any] = json.loads(json.dumps(THEIRS.to_message(link=True)))
SAID: list[dict[str, Any]] = [HELLO, {**HELLO, "nonce": "ab"}, {"nonce": "ab"}, {"proof": "ab"}, {"refused": True}]
SAID += [{"hello": HELLO["hello"], "proof": "ab"}, {"doctor": 2}]
DOCTOR = DoctorHello.own(CLUSTER, (1,))
PAIR = Pair((1,), 0, judge(DOCTOR, DOCTOR, 1, "::1", None).status, "found", round_trip=0.1).to_json()
MEASURED = [{"pong": 1.5}, {"loaded": True}, {"ping": True}, {"load": "x", "last": True}, {"pair": PAIR}]

tokens = st.sampled_from([None, TOKEN])
messages = st.lists(changed_json(*SAID), min_size=1, max_size=3)
bytes_of_strangers = messages.map(lambda said: b"\n".join([*said, b""])) | st.binary(max_size=300)


@fuzzed(30, said=st.lists(st.one_of(*map(changed, SAID)), min_size=1, max_size=4), token=tokens)
def test_an_introduction_is_a_line_error_or_a_reply(said: list[Any], token: Token | None) -> None:
    introduction = Introduction(MINE, token)
    for side in (AnswererSide(introduction), CallerSide(introduction, link=True)):
        with contextlib.suppress(LineError):
            for message in said:
                reply = side.hear(message) if isinstance(message, dict) else None
                if reply is not None and reply.say is not None:
                    json.dumps(reply.say)
                if reply is not None and reply.met is not None:
                    assert token is None or b"proof" not in reply.met.said
                    str(hello_agreement.disagreement(MINE, reply.met.hello, 1)).encode()


class Listening:
    """A listener, its port, and its time, which passes only when it is told to."""

    def __init__(self, token: Token | None) -> None:
        [port] = free_ports(1)
        self.now = 0.0
        self.token, self.address = token, Address("127.0.0.1", port)
        self.listener = HelloListener([port], Introduction(MINE, token), lambda: self.now)
        self.listener.open()

    def meets(self, hello: Hello) -> bool:
        """Whether one that calls now meets it."""
        met: list[Any] = []
        introduction = Introduction(hello, self.token)
        caller = Connector(0, self.address, introduction, link=True, clock=lambda: self.now)
        with contextlib.closing(caller):
            until(lambda: caller.step() or met.extend(self.listener.step()) or (caller.met is not None and met))
        for arrived in met:
            if arrived.line is not None:
                arrived.line.close()
        return caller.met == MINE and any(arrived.hello == hello for arrived in met)


@pytest.fixture
def listeners() -> Iterator[dict[Token | None, Listening]]:
    made = {token: Listening(token) for token in (None, TOKEN)}
    yield made
    for listening in made.values():
        listening.listener.close()


@fuzzed(15, parts=pieces(bytes_of_strangers), how=ENDS, token=tokens)
def test_a_listener_meets_the_right_one_after_a_stranger(
    parts: list[bytes], how: str, token: Token | None, listeners: dict[Token | None, Listening]
) -> None:
    here = listeners[token]
    with socket.create_connection((here.address.host, here.address.port), timeout=10) as stranger:
        for caller in here.listener.step():
            assert caller.line is None
        deliver(stranger, parts, lambda: [caller.line and caller.line.close() for caller in here.listener.step()])
        end(stranger, how)
        here.now += 10.0
        assert here.meets(THEIRS)


@fuzzed(15, parts=pieces(bytes_of_strangers), how=ENDS, token=tokens, doctor=st.booleans())
def test_a_connector_survives_whoever_listens(
    parts: list[bytes], how: str, token: Token | None, doctor: bool
) -> None:
    now = 0.0
    introduction: Any = doctor_introduction(DOCTOR) if doctor else Introduction(MINE, token)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        connector = Connector(1, address, introduction, link=True, clock=lambda: now)
        with contextlib.closing(connector):
            until(lambda: connector.step() or connector.line is not None)
            accepted, _ = server.accept()
            with accepted:
                deliver(accepted, parts, connector.step)
                end(accepted, how)
                connector.step()
                now += 60.0
                ended = (DialStatus.SILENT, DialStatus.STRANGER, DialStatus.CLOSED, DialStatus.MISMATCHED)
                ended += (DialStatus.MET, DialStatus.GRPC)
                until(lambda: connector.step() or connector.mismatch or connector.seen.status in ended)
                if token is not None and not doctor:
                    assert connector.met is None, "it has no proof"


@fuzzed(25, said=st.lists(changed_json(HELLO, {"missing": {"1": "refused"}}, {"abort": {"code": 2, "text": "why",
        "host": "b"}}), min_size=1, max_size=3))  # fmt: skip
def test_a_follower_says_whatever_it_likes(said: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    follower = Follower(THEIRS, LineSocket(ours))
    with theirs, contextlib.closing(follower.line):
        deliver(theirs, [b"\n".join([*said, b""])], follower.listen)
        follower.listen()
        assert all(isinstance(index, int) and isinstance(seen, str) for index, seen in (follower.missing or {}).items())
        if follower.abort is not None:
            assert 0 < _given_up(follower.abort).exit_code < 256


_hex = st.text("0123456789abcdef", min_size=60, max_size=66)
_told = st.builds("digests:{}:{}:{}:{}".format, st.integers(-1, 200), _hex, _hex, st.text("0123456789abcdef:"))


@fuzzed(30, here=_told | st.text(max_size=100), there=_told | st.text(max_size=100))
def test_lists_are_compared_whatever_is_told_of_them(here: str, there: str) -> None:
    assert count_of(here) >= 1
    assert have_same_workers(here, here) and isinstance(have_same_workers(here, there), bool)
    assert len(difference(here, there)) < 1000


@fuzzed(25, said=changed_json({"host": "a", "waiting": "1 of 2", "missing": 1, "lines": ["  worker 1 (b:20000)"]}))
def test_an_overview_is_a_line_error_or_one_that_can_be_printed(said: bytes) -> None:
    with contextlib.suppress(LineError):
        [message] = LineBuffer().feed(said + b"\n")
        overview = Overview.from_message(message)
        assert all(text.isprintable() for text in (overview.host, overview.waiting, *overview.lines))
        assert Overview.from_message(overview.to_message()["overview"]) == overview


@fuzzed(25, said=changed_json(json.loads(json.dumps(DOCTOR.to_message(link=True))), *MEASURED))
def test_a_doctor_hears_whatever_another_says(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    line = LineSocket(ours)
    clocks = Clocks(lambda: 1.0, lambda: 2.0)
    with theirs, contextlib.closing(line):
        measurement = Measurement(line, clocks)
        messages: list[Message] = []
        with contextlib.suppress(LineError):
            # As much as it is, it may not fit into the socket at once.
            deliver(theirs, [said + b"\n"], lambda: messages.extend(line.receive()))
            for message in messages:
                answer(line, message, clocks)
                measurement.take(message)
                for _ in range(PINGS):
                    measurement.take({"pong": 2.0})
                measurement.take(message)
                measured = measurement.result()
                hello = DoctorHello.from_message(message) if "hello" in message else DOCTOR
                pair = judge(DOCTOR, hello, 1, "127.0.0.1", measured)
                leads_elsewhere(DOCTOR, hello, 0)
                disagreement(DOCTOR, hello)
                json.dumps(pair.to_json())
                if "pair" in message:
                    json.dumps(Pair.from_message(message).to_json())
