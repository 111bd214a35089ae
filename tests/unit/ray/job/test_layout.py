from __future__ import annotations

import pytest

from tfdist.ray.job.layout import Node, lay_out, worker_list

H1 = Node("id1", "10.0.0.1", "h1")
H2 = Node("id2", "10.0.0.2", "h2")
H10 = Node("id10", "10.0.0.10", "h10")


@pytest.mark.parametrize(
    ("placed", "here", "expected"),
    [
        ({0: H1}, None, [("h1", (0,), [0])]),
        # Ray deals bundles out as it likes; the ranks of a machine are next to each other.
        ({0: H2, 1: H1, 2: H2, 3: H1}, None, [("h1", (1, 3), [0, 1]), ("h2", (0, 2), [2, 3])]),
        # By number, not as text: 10.0.0.10 comes after 10.0.0.2.
        ({0: H10, 1: H2}, None, [("h2", (1,), [0]), ("h10", (0,), [1])]),
        # The chief is where the driver is, if it has workers there.
        ({0: H1, 1: H10}, "10.0.0.10", [("h10", (1,), [0]), ("h1", (0,), [1])]),
        ({0: H1, 1: H2}, "10.0.0.99", [("h1", (0,), [0]), ("h2", (1,), [1])]),
    ],
)
def test_workers_of_a_machine_are_next_to_each_other(
    placed: dict[int, Node], here: str | None, expected: list[tuple[str, tuple[int, ...], list[int]]]
) -> None:
    layout = lay_out(placed, here)
    assert [(machine.node.name, machine.bundles, [*machine.workers]) for machine in layout] == expected


def test_nodes_of_one_address_are_one_machine() -> None:
    """Two nodes of Ray on one machine: one launcher starts the workers of both, on different ports."""
    (machine,) = lay_out({0: Node("a", "10.0.0.1", "h1"), 1: Node("b", "10.0.0.1", "h1")})
    assert [*machine.workers] == [0, 1]


def test_names_come_after_addresses() -> None:
    layout = lay_out({0: Node("a", "head.cluster", "head"), 1: H1})
    assert [machine.node.name for machine in layout] == ["h1", "head"]


def test_worker_list() -> None:
    layout = lay_out({0: H1, 1: H1, 2: H2})
    assert worker_list(layout, [[20001, 20002], [20001]]) == "10.0.0.1:20001,10.0.0.1:20002,10.0.0.2:20001"


def test_a_machine_says_its_workers() -> None:
    several, one = lay_out({0: H1, 1: H1, 2: H2})
    assert str(several) == "h1 (10.0.0.1), which has workers 0 to 1"
    assert str(one) == "h2 (10.0.0.2), which has worker 2"
