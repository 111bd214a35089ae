from __future__ import annotations

import pytest

from tfdist.cluster import slurm_lists
from tfdist.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login", ["login"]),
        ("a,b", ["a", "b"]),
        ("node[2,10]", ["node2", "node10"]),  # in Slurm's order, not the order of strings
        ("gpu[8-10,12],login", ["gpu8", "gpu9", "gpu10", "gpu12", "login"]),
        ("n[008-010]", ["n008", "n009", "n010"]),  # leading zeros stay
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        # The last brackets change first, then the first ones; `scontrol` says so, see tests/clusters/slurm.
        ("c[0-1]r[0-1]n[3,5]", [f"c{c}r{r}n{n}" for r in "01" for c in "01" for n in "35"]),
        ("c[0-1]r[0-1]n[5]", ["c0r0n5", "c1r0n5", "c0r1n5", "c1r1n5"]),
    ],
)
def test_node_lists_are_expanded(text: str, hosts: list[str]) -> None:
    assert slurm_lists.expand_hosts(text) == hosts


@pytest.mark.parametrize("text", ["", "n[1-", "n[a]", "n[3-1]", "a,,b", "n]"])
def test_broken_node_lists_are_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="list of nodes"):
        slurm_lists.expand_hosts(text)


@pytest.mark.parametrize(("text", "counts"), [("1", [1]), ("2(x3),1", [2, 2, 2, 1]), ("1,2", [1, 2])])
def test_task_counts_are_expanded(text: str, counts: list[int]) -> None:
    assert slurm_lists.expand_counts(text) == counts


def test_broken_task_counts_are_refused() -> None:
    with pytest.raises(ClusterError, match="tasks per node"):
        slurm_lists.expand_counts("2(x")


@pytest.mark.parametrize(
    "text",
    [
        "n[0-999999999]",
        "n[0-65536]",
        "n[0-9][0-9][0-9][0-9][0-9]",
        "n" + "[1]" * 40_000,
        "n[" + "1" * 5000 + "]",
        "n" * 300,
        ",".join(["n[0-40000]"] * 2),
        "n[]",
        "n[٣]",
    ],
    ids=len,
)
def test_lists_of_more_nodes_than_there_are_cost_nothing(text: str) -> None:
    with pytest.raises(ClusterError, match="list of nodes"):
        slurm_lists.expand_hosts(text)


@pytest.mark.parametrize("text", ["1(x999999999)", "1(x40000),1(x40000)", "1" * 5000, "٣"])
def test_counts_of_more_tasks_than_there_are_cost_nothing(text: str) -> None:
    with pytest.raises(ClusterError, match="tasks per node"):
        slurm_lists.expand_counts(text)
