"""What `scontrol show hostnames` makes of Slurm's lists of nodes, and what tfdist does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clusters.slurm.slurm_cluster import SlurmCluster
from tfdist.cluster.slurm import expand_hosts
from tfdist.errors import ClusterError

LISTS = [
    "login",
    "1",
    "[1-3]",
    "n1,n2,n10",
    "n[1-1]",
    "n[9-11]",
    "n[1,3-4]",
    "gpu[8-10,12],login",
    "n[008-010]",
    "n[098-102]",
    "n[01-03,5]",
    "n[1,01,001]",
    "n-1,n-[2-3]",
    "n1,n1",
    "a[1-2]b[3,7-8],m",
    "c[0-1]r[0-1]n[0-2]",
    "c[0-1]r[0-1]n[5]",
    "a[00-01]b[2]c[3-4]d[1,5]",
    "rack1-node[01-02],rack2-node[01-02],x[0-1]y[08-11]",
]


@pytest.mark.parametrize("text", LISTS)
def test_lists_stand_for_what_scontrol_says(slurm: SlurmCluster, text: str) -> None:
    assert expand_hosts(text) == shown_hostnames(slurm, text)


RANGE = st.tuples(st.integers(0, 120), st.integers(0, 4), st.integers(0, 4)).map(
    lambda drawn: f"{drawn[0]:0{drawn[2]}}" + (f"-{drawn[0] + drawn[1]:0{drawn[2]}}" if drawn[1] else "")
)
BRACKETS = st.lists(RANGE, min_size=1, max_size=3).map(lambda ranges: f"[{','.join(ranges)}]")
NAME = st.from_regex(r"[a-z]{1,3}[0-9]{0,2}-?", fullmatch=True)
PART = st.lists(st.tuples(NAME, BRACKETS).map("".join), min_size=1, max_size=4).map("".join)
LIST = st.lists(st.one_of(NAME, PART), min_size=1, max_size=3).map(",".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=LIST)
def test_any_list_stands_for_what_scontrol_says(slurm: SlurmCluster, text: str) -> None:
    assert expand_hosts(text) == shown_hostnames(slurm, text)


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-c]", "bgl[000x011]", "n[]"])
def test_what_scontrol_refuses_is_refused(slurm: SlurmCluster, text: str) -> None:
    assert shown_hostnames(slurm, text) == []
    with pytest.raises(ClusterError, match="list of nodes"):
        expand_hosts(text)


def shown_hostnames(slurm: SlurmCluster, text: str) -> list[str]:
    return slurm.run("scontrol", "show", "hostnames", text).stdout.split()
