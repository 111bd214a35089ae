"""Whom a generation that does not form is without."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError
from tfdist.launch.elastic.gathering import Candidate
from tfdist.launch.elastic.generation import Generation
from tfdist.launch.elastic.leader import lost_members
from tfdist.launch.rendezvous.join_barrier import LateError
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineSocket

CANDIDATES = Cluster.parse("a:20000,b:20000,c:20000,d:20000,d:20001")
WITHOUT_B = Generation(2, (0, 2, 3, 4), 20001)


@pytest.fixture
def members() -> Iterator[tuple[Candidate, Candidate]]:
    """The launchers of c and of d."""
    with contextlib.ExitStack() as stack:
        ends = [[stack.enter_context(end) for end in socket.socketpair()] for _ in range(2)]
        hellos = Hello.own(CANDIDATES, (2,)), Hello.own(CANDIDATES, (3, 4))
        first, last = (Candidate(hello, LineSocket(end[0])) for hello, end in zip(hellos, ends, strict=True))
        yield first, last


def lost(error: FormingError, members: tuple[Candidate, ...]) -> list[tuple[int, str | None, str]]:
    cluster = WITHOUT_B.membership(Membership(CANDIDATES, (0,))).cluster
    found = lost_members(error, WITHOUT_B, cluster, members)
    assert {failure.kind for failure in found} == {"lost"}
    return [(failure.index, failure.address, failure.message) for failure in found]


def test_a_launcher_that_has_hung_up_is_lost(members: tuple[Candidate, Candidate]) -> None:
    members[1].line.close()
    [(index, address, message)] = lost(FormingError("d has gone"), members)
    assert (index, address) == (2, "d:20000")
    assert message.startswith("the launcher of worker(s) 2, 3 is gone: it was killed")


def test_a_launcher_that_has_not_come_is_lost(members: tuple[Candidate, Candidate]) -> None:
    [(index, address, message)] = lost(LateError("not all came", {1: DialOutcome(DialStatus.REFUSED)}), members)
    assert (index, address) == (1, "c:20000")
    assert message.startswith("it refuses the connection: no tfdist launcher waits there")


def test_where_all_have_come_none_of_them_is_known_to_be_lost(members: tuple[Candidate, Candidate]) -> None:
    """Two others do not reach each other."""
    [(index, _, message)] = lost(LateError("its launchers wait"), members)
    assert (index, message) == (0, "its launchers wait")
