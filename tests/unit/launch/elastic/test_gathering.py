"""What the chief's launcher makes of the lines to the others, between generations and while one runs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.elastic.gathering import Candidate, Gathering
from tfdist.launch.elastic.generation import Generation
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineSocket

CLUSTER = Cluster.parse("192.0.2.1:20000,192.0.2.2:20000,192.0.2.3:20000")
BOTH = Generation(1, (0, 1, 2), 20001)


class Lines:
    """A gathering with the launchers that have knocked, whose ends of the lines are here."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.out: list[int] = []
        self.gathering = Gathering(
            Membership(CLUSTER, (0,)), {}, None, self.said.append, is_out=lambda each: bool({*each} & {*self.out})
        )
        self.ends: list[LineSocket] = []

    def knock(self, index: int) -> LineSocket:
        """A launcher of this worker comes, and can take part."""
        ours, theirs = map(LineSocket, socket.socketpair())
        self.ends.append(theirs)
        self.gathering.add(Candidate(Hello.own(CLUSTER, (index,)), ours))
        theirs.send({"ready": True})
        self.gathering.step("wait")
        return theirs

    def close(self) -> None:
        self.gathering.close()
        for each in self.ends:
            each.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    with contextlib.closing(Lines()) as made:
        yield made


def test_who_is_lost_in_a_generation_is_not_waited_for_in_the_next(lines: Lines) -> None:
    lines.knock(1)
    lines.knock(2)
    lines.gathering.begin(BOTH)
    lines.gathering.end_generation([2])
    assert lines.gathering.present() == (0, 1, 2)
    lines.gathering.step("wait")
    assert lines.gathering.present() == (0, 1)


def test_who_came_in_place_of_one_that_is_lost_is_not_lost(lines: Lines) -> None:
    """Its line broke before the workers noticed: a scheduler may start the next launcher at once."""
    lines.knock(1)
    lost = lines.knock(2)
    lines.gathering.begin(BOTH)
    lost.close()
    lines.gathering.step("wait")
    lines.knock(2)
    lines.gathering.end_generation([2])
    lines.gathering.step("wait")
    assert lines.gathering.present() == (0, 1, 2)


def test_who_stays_out_is_told_and_counts_only_where_it_must(lines: Lines) -> None:
    lines.out.append(2)
    other, out = lines.knock(1), lines.knock(2)
    assert lines.gathering.present() == (0, 1)
    assert lines.gathering.present(also_out=True) == (0, 1, 2)
    assert len(lines.gathering.waiting_hosts()) == 1
    lines.gathering.end_generation()
    lines.gathering.step("wait")
    assert {"wait": {"text": "wait"}} in other.receive()
    assert any("stays out for some time" in str(said) for said in out.receive())
    lines.out.clear()
    assert lines.gathering.present() == (0, 1, 2)
