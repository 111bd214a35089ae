from __future__ import annotations

from typing import Any

import pytest

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.elastic.generation import Generation, chief_ports
from tfdist.net.line_socket import LineError

CANDIDATES = Cluster.parse("a:20000,a:20001,b:20000,c:20000,c:20001")


def test_the_members_are_a_cluster_in_the_order_of_the_list() -> None:
    generation = Generation.from_message(Generation(2, (0, 1, 3, 4), 20002).to_message())
    membership = generation.membership(Membership(CANDIDATES, (3, 4), (3, 4)))
    assert str(membership.cluster) == "a:20002,a:20001,c:20000,c:20001"
    assert membership.local == membership.machine == (2, 3)


def test_launchers_of_one_machine_know_of_one_another() -> None:
    membership = Generation(1, (0, 2, 4), 20002).membership(Membership(CANDIDATES, (4,), (3, 4)))
    assert (membership.local, membership.machine) == ((2,), (2,))


def test_the_chief_alone_needs_no_cluster() -> None:
    membership = Generation(1, (0,), 20002).membership(Membership(Cluster.parse("a:20000,b:20000"), (0,)))
    assert (membership.cluster, membership.local) == (None, (0,))


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"number": 1, "members": [0, 1], "chief_port": 0},
        {"number": 0, "members": [0, 1], "chief_port": 1},
        {"number": 1, "members": [], "chief_port": 1},
        {"number": 1, "members": [1, 2], "chief_port": 1},
        {"number": 1, "members": [0, 2, 1], "chief_port": 1},
        {"number": 1, "members": [0, "1"], "chief_port": 1},
        {"number": 1, "members": 3, "chief_port": 1},
        {"number": 1, "members": [0, True], "chief_port": 1},
    ],
)
def test_what_is_no_generation_is_refused(content: Any) -> None:
    with pytest.raises(LineError, match="no generation"):
        Generation.from_message(content)


@pytest.mark.parametrize(("members", "port"), [((0, 1), 20002), ((0, 9), 20002), ((0, 1, 2), 20001)])
def test_a_generation_that_does_not_fit_the_list_is_refused(members: tuple[int, ...], port: int) -> None:
    with pytest.raises(LineError):
        Generation(1, members, port).membership(Membership(CANDIDATES, (2,)))


def test_the_chief_gets_a_port_that_is_not_in_the_list() -> None:
    assert chief_ports(Membership(CANDIDATES, (0, 1)))[:2] == [20002, 20003]
    last = Membership(Cluster.parse("a:65535,b:20000"), (0,))
    assert chief_ports(last) == []
