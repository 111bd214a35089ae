from __future__ import annotations

import pytest

from tfdist.cluster import slurm
from tfdist.errors import ClusterError

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
