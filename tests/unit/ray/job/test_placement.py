""""""

from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.ray.job.placement import Demand, Node, lay_out, resources_text, shortage, worker_list

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


@pytest.mark.parametrize(
    ("demand", "bundle", "text"),
    [
        (Demand(1), {"CPU": 1}, "1 worker with 1 CPU each, 1 CPU in all"),
        (Demand(4, 2, 1), {"CPU": 2, "GPU": 1}, "4 workers with 2 CPUs and 1 GPU each, 8 CPUs and 4 GPUs in all"),
        (
            Demand(2, strategy="strict-spread"),
            {"CPU": 1},
            "2 workers with 1 CPU each, 2 CPUs in all, each on a node of its own",
        ),
        (Demand(2, strategy="strict-pack"), {"CPU": 1}, "2 workers with 1 CPU each, 2 CPUs in all, all on one node"),
    ],
)
def test_demand(demand: Demand, bundle: dict[str, float], text: str) -> None:
    assert demand.bundle == bundle
    assert str(demand) == text


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1, "cpus": 0}, {"workers": 1, "gpus": -1}])
def test_impossible_demands(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least one worker"):
        Demand(**wrong)


def test_resources_in_words() -> None:
    assert resources_text({"CPU": 3.5, "GPU": 1, "memory": 1e9}) == "3.5 CPUs and 1 GPU"
    assert resources_text({"memory": 1e9}) == "no CPU"


def test_a_shortage_says_what_there_is_and_what_was_asked_for() -> None:
    assert shortage(Demand(5), {"CPU": 4, "memory": 1e9}, {"CPU": 1, "memory": 1e9}, 2) == (
        "The Ray cluster has 4 CPUs on 2 nodes, of which 1 CPU is free, and no place for the job. Expected room for 5 "
        "workers with 1 CPU each, 5 CPUs in all."
    )
