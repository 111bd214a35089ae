from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator

import pytest

from tfdist.cluster import Cluster
from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.mesh.doctor_link import DoctorHello
from tfdist.doctor.mesh.pair import KnownPairs, Pair
from tfdist.net.line_socket import LineError, LineSocket, Message

CLUSTER = Cluster.parse("a:20000,b:20000,c:20000")
MINE = DoctorHello.own(CLUSTER, (0,))
THEIRS = DoctorHello.own(CLUSTER, (1,))
OWN = Pair((0,), 1, CheckStatus.OK, "b answers and agrees")


def told(pair: Pair) -> Message:
    return {"pair": pair.to_json()}


@pytest.fixture
def lines() -> Iterator[tuple[LineSocket, LineSocket]]:
    ours, theirs = map(LineSocket, socket.socketpair())
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield ours, theirs


@pytest.mark.parametrize(
    ("pair", "kept"),
    [
        (Pair((1,), 0, CheckStatus.OK, "fine"), True),
        (Pair((2,), 0, CheckStatus.OK, "fine"), False),  # b does not know how c reaches the others
        (Pair((0,), 2, CheckStatus.OK, "fine"), False),
        (Pair((1,), 3, CheckStatus.OK, "fine"), False),
        (Pair((1,), -1, CheckStatus.OK, "fine"), False),
    ],
)
def test_a_doctor_is_believed_about_its_own_connections_alone(pair: Pair, kept: bool) -> None:
    known = KnownPairs(MINE, 3)
    known.hear(THEIRS, told(pair))
    assert list(known.pairs.values()) == ([pair] if kept else [])


def test_what_doctors_with_another_list_tell_is_ignored() -> None:
    known = KnownPairs(MINE, 3)
    known.hear(dataclasses.replace(THEIRS, cluster="b:20000,a:20000"), told(Pair((1,), 0, CheckStatus.OK, "fine")))
    known.hear(None, {"done": True})
    assert (known.pairs, known.finished) == ({}, set())
    with pytest.raises(LineError):
        known.hear(THEIRS, {"pair": "none"})


def test_everything_is_told_once_and_again_to_a_doctor_that_comes_back(lines: tuple[LineSocket, LineSocket]) -> None:
    ours, theirs = lines
    known = KnownPairs(MINE, 3)
    known.pairs[OWN.key] = OWN
    known.hear(THEIRS, told(Pair((1,), 0, CheckStatus.OK, "fine")))
    for complete in (False, False, True, True):
        known.share({THEIRS.sender: ours}, complete=complete)
    assert theirs.receive() == [told(OWN), {"done": True}]
    known.forget(THEIRS)
    known.share({THEIRS.sender: ours}, complete=True)
    assert theirs.receive() == [told(OWN), {"done": True}]
