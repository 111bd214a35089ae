""""""

from __future__ import annotations

import pytest

from tfdist.cluster import slurm
from tfdist.cluster.slurm import Allocation, slurm_allocation
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
    assert slurm.expand_hosts(text) == hosts


@pytest.mark.parametrize("text", ["", "n[1-", "n[a]", "n[3-1]", "a,,b", "n]"])
def test_broken_node_lists_are_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="list of nodes"):
        slurm.expand_hosts(text)


@pytest.mark.parametrize(("text", "counts"), [("1", [1]), ("2(x3),1", [2, 2, 2, 1]), ("1,2", [1, 2])])
def test_task_counts_are_expanded(text: str, counts: list[int]) -> None:
    assert slurm.expand_counts(text) == counts


def test_broken_task_counts_are_refused() -> None:
    with pytest.raises(ClusterError, match="tasks per node"):
        slurm.expand_counts("2(x")


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
        slurm.expand_hosts(text)


@pytest.mark.parametrize("text", ["1(x999999999)", "1(x40000),1(x40000)", "1" * 5000, "٣"])
def test_counts_of_more_tasks_than_there_are_cost_nothing(text: str) -> None:
    with pytest.raises(ClusterError, match="tasks per node"):
        slurm.expand_counts(text)


STEP = {
    "SLURM_JOB_ID": "1000",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "node[2,10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
}


def test_each_task_has_its_membership() -> None:
    found = slurm.slurm_membership(STEP)
    assert found is not None and found.cluster is not None
    base = slurm.base_port(1000, 0)
    assert str(found.cluster) == f"node2:{base},node2:{base + 1},node10:{base}"
    assert (found.local, found.machine) == ((2,), (2,))
    first = slurm.slurm_membership({**STEP, "SLURM_PROCID": "0"})
    assert first is not None
    assert (first.local, first.machine) == ((0,), (0, 1))


@pytest.mark.parametrize("distribution", ["block", "block:cyclic", "cyclic", "cyclic:block,Pack", "plane"])
@pytest.mark.parametrize(
    ("nodes", "counts", "hosts"),
    [("node[1-3]", "1(x3)", ["node1", "node2", "node3"]), ("node7", "3", ["node7"] * 3)],
)
def test_other_distributions_with_the_same_result(distribution: str, nodes: str, counts: str, hosts: list[str]) -> None:
    changed = {"SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": counts, "SLURM_DISTRIBUTION": distribution}
    found = slurm.slurm_membership({**STEP, **changed})
    assert found is not None and found.cluster is not None
    assert [address.host for address in found.cluster.workers] == hosts


def test_ports_stay_below_the_ephemeral_ones_and_differ_between_neighbours() -> None:
    bases = [slurm.base_port(job, step) for job in range(1, 400) for step in range(3)]
    assert min(bases) >= 20000 and max(bases) + 64 <= 32000
    assert len({slurm.base_port(job, 0) for job in range(100)}) == 100
    assert slurm.base_port(5, 0) != slurm.base_port(5, 1)


@pytest.mark.parametrize(
    "environ", [{}, {"SLURM_JOB_ID": "1"}, {**STEP, "SLURM_STEP_NUM_TASKS": "1"}, {"SLURM_PROCID": "0"}]
)
def test_outside_a_step_of_several_tasks_there_is_no_membership(environ: dict[str, str]) -> None:
    assert slurm.slurm_membership(environ) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"SLURM_STEP_TASKS_PER_NODE": "1"}, "contradict one another"),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1"}, "contradict one another"),
        ({"SLURM_PROCID": "3"}, "contradict one another"),
        ({"SLURM_PROCID": "x"}, "must be a number"),
        ({"SLURM_DISTRIBUTION": "cyclic"}, "--distribution=block"),
        ({"SLURM_DISTRIBUTION": "plane=2"}, "--distribution=block"),
        (
            {"SLURM_DISTRIBUTION": "arbitrary", "SLURM_STEP_NODELIST": "n[1-3]", "SLURM_STEP_TASKS_PER_NODE": "1(x3)"},
            "--distribution=block",
        ),
    ],
)
def test_variables_that_contradict_one_another_are_refused(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        slurm.slurm_membership({**STEP, **changed})
    assert says in str(raised.value)


def test_the_script_of_a_job_is_told_to_use_srun() -> None:
    with pytest.raises(ClusterError, match="srun tfdist train"):
        slurm.slurm_membership({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"})


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_JOB_ID"])
def test_numbers_of_too_many_digits_are_refused(name: str) -> None:
    with pytest.raises(ClusterError, match=f"{name}.* must be a number"):
        slurm.slurm_membership({**STEP, name: "1" * 5000})


def test_a_contradiction_among_many_nodes_is_told_in_few_words() -> None:
    with pytest.raises(ClusterError, match=r"node1, .*node8, \.\.\. \(40000\)") as raised:
        slurm.slurm_membership({**STEP, "SLURM_STEP_NODELIST": "node[1-40000]"})
    assert len(str(raised.value)) < 500


SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_CONF": "/etc/slurm.conf"}, None),
        (SALLOC, Allocation("7", 2)),
        ({**SALLOC, "SLURM_PROCID": "0"}, Allocation("7", 2)),  # a batch script
        ({**SALLOC, "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"}, Allocation("7", 2)),  # an interactive step
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "x"}, Allocation("7", 1)),
    ],
)
def test_allocations(environ: dict[str, str], expected: Allocation | None) -> None:
    assert slurm_allocation(environ) == expected


def test_a_task_of_a_step_starts_none() -> None:
    with pytest.raises(ClusterError, match="a task of step 0 of the Slurm job 7"):
        slurm_allocation({**SALLOC, "SLURM_STEP_ID": "0"})
