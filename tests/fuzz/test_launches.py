"""What a launch reads: hostfiles, filters, and what hosts and launches say to one another."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import string
import time

import pytest
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_json
from tests.fuzz.properties import fuzzed
from tfdist.errors import UsageError
from tfdist.multihost.hosts import Host, exclude, include, parse_filter, parse_hostfile, parse_hosts
from tfdist.multihost.launching.host_group import HostGroup, HostState, LaunchHost, problem_of
from tfdist.multihost.launching.host_link import HostLink, HostProblem, launch_error
from tfdist.multihost.launching.protocol import HostFacts, HostSpec, StartOrder, marker, parse_message
from tfdist.multihost.mpi.call_back import CallError, answer_call, parse_places
from tfdist.multihost.remote.remote_end import ControlInput
from tfdist.net.shared_token import Token

SPEC = HostSpec("1.0", "n", "/w", "script", "train.py", ("--a=1",), 2, (0, 1), 5.0, {"A": "1"}, "/o", "/r")
FACTS = HostFacts("host", "boot", "10.0.0.1", (20_000,), 2, "/python")
_PARTS = ["h1", "h2", " ", "\t", "slots=", "slots", "=", "2", "99999999999", "#", "\n", "\r", "@", ":", ",", "-", "é"]
_PARTS += ["\0"]
texts = st.lists(st.sampled_from(_PARTS) | st.text(string.printable, max_size=4), max_size=12).map("".join)


@fuzzed(60, text=texts)
def test_a_hostfile(text: str) -> None:
    with contextlib.suppress(UsageError):
        hosts = parse_hostfile(text, "hosts")
        assert len({host.name for host in hosts}) == len(hosts) > 0
        lines = [f"{host.name} slots={len(host.slots)}" if host.slots else host.name for host in hosts]
        assert parse_hostfile("\n".join(lines), "hosts") == hosts


@fuzzed(60, text=texts)
def test_filters(text: str) -> None:
    hosts = (Host("h1", (0, 1, 2)), Host("h2", (0,)), Host("h3"))
    for apply in (include, exclude):
        with contextlib.suppress(UsageError):
            left = apply(hosts, text, "hosts")
            assert left and [host.name for host in hosts if host.name in {each.name for each in left}]
            assert parse_filter(text, "--include")
    with contextlib.suppress(UsageError):
        assert parse_hosts(text)


@fuzzed(40, text=changed_json(dataclasses.asdict(SPEC)) | st.binary(max_size=50))
def test_what_a_host_is_told(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        spec = HostSpec.of(text)
        assert HostSpec.of(spec.to_line()) == spec


@fuzzed(40, text=changed_json({"checked": dataclasses.asdict(FACTS), "refused": {"what": "x", "code": 2}}))
def test_what_a_host_answers(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        said = parse_message(text)
        assert problem_of(said.get("refused")).code in (2, 3)
        with contextlib.suppress(ValueError):
            StartOrder.of(said.get("checked"))
        assert HostFacts.of(said.get("checked")).ports is not None


class _Link(HostLink):
    """A link whose host says what it is given."""

    def poll(self) -> int | None:
        return None

    def explain_loss(self) -> HostProblem:
        return HostProblem("is gone")

    def hang_up(self) -> None:
        pass

    def close(self) -> None:
        pass


_ANSWERS = ({"here": True}, {"checked": dataclasses.asdict(FACTS)}, {"refused": {"what": "x", "code": 2}}, {"ended": 0})


@fuzzed(40, said=st.lists(changed_json(*_ANSWERS) | st.binary(max_size=60), max_size=6), is_marked=st.booleans())
def test_whatever_hosts_answer_they_are_checked_lost_or_waited_for(said: list[bytes], is_marked: bool) -> None:
    pipes = [os.pipe() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        for descriptor in (end for pipe in pipes for end in pipe):
            stack.callback(os.close, descriptor)
        link = _Link("n")
        link.attach(*(_Stream(pipes[0][1]), _Stream(pipes[1][0]), _Stream(pipes[2][0])))
        host = LaunchHost(Host("h1"), HostState.CONNECTING, link, since=time.monotonic())
        for line in said:
            os.write(pipes[1][1], (marker("n") if is_marked else b"") + line[:30_000] + b"\n")
            HostGroup.take_answer(host, link.hear())
            HostGroup.check_connection(host, lambda *_: HostProblem("late"), 60.0)
        assert host.state in (HostState.CONNECTING, HostState.CHECKED, HostState.LOST)
        assert (host.facts is not None) >= (host.state is HostState.CHECKED)
        if host.problem is not None:
            str(launch_error({"h1": host.problem}, 1))


@dataclasses.dataclass(frozen=True)
class _Stream:
    descriptor: int

    def fileno(self) -> int:
        return self.descriptor


@fuzzed(25, pieces=st.lists(st.binary(max_size=30) | st.just(json.dumps({"signal": 2}).encode() + b"\n"), max_size=8))
def test_control_of_a_remote_end(pieces: list[bytes]) -> None:
    reading, writing = os.pipe()
    try:
        control = ControlInput(reading)
        for piece in pieces:
            os.write(writing, piece)
            assert all(isinstance(said, dict) for said in control.messages())
    finally:
        os.close(reading)
        os.close(writing)


@fuzzed(25, said=changed_json({"host": "h1", "stream": "control", "nonce": "a", "proof": "b"}) | st.binary(max_size=60))
def test_a_call_of_a_rank(said: bytes) -> None:
    """Nobody is taken for a rank who does not have the secret."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # What the socket holds: nobody reads yet.
        theirs.sendall(said[:30_000] + b"\n")
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises((CallError, OSError)):
            answer_call(ours, Token("secret"))


@fuzzed(25, text=st.lists(st.sampled_from(["10.0.0.1", " ", ",", "7", "99999999", "fd00::1", "é"])).map("".join))
def test_places_to_call(text: str) -> None:
    with contextlib.suppress(CallError):
        assert all(0 < port < 65536 for _, port in parse_places(text))
