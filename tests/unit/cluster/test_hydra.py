from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.cluster import discover
from tfdist.cluster.mpi import hydra_membership, proxy_of_this_process
from tfdist.errors import ClusterError

# What MPICH 4.0.2 sets for the second of three ranks.
RANK = {"PMI_RANK": "1", "PMI_SIZE": "3", "PMI_FD": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}


def job() -> str:
    return "28992:1234"


def test_ranks_of_one_machine_choose_the_same_list() -> None:
    found = [hydra_membership({**RANK, "PMI_RANK": str(rank)}, job) for rank in range(3)]
    assert len({str(place.cluster) for place in found if place is not None}) == 1
    assert [place.local for place in found if place is not None] == [(0,), (1,), (2,)]
    assert all(place is not None and place.machine == (0, 1, 2) for place in found)


def test_jobs_choose_other_ports() -> None:
    found = {str(hydra_membership(RANK, lambda number=number: f"{number}:1")) for number in range(50)}
    assert len(found) > 40


@pytest.mark.parametrize("environ", [{}, {"PMI_RANK": "0", "PMI_SIZE": "1"}])
def test_outside_or_with_one_rank_there_is_no_membership(environ: dict[str, str]) -> None:
    assert hydra_membership(environ, job) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"MPI_LOCALNRANKS": "2"}, "started 3 ranks, 2 of them on this machine.* tfdist launch --on mpi"),
        ({"PMI_SIZE": "many"}, "PMI_SIZE must be a number"),
        ({"MPI_LOCALNRANKS": ""}, "MPI_LOCALNRANKS must be a number"),
        ({"PMI_RANK": "3"}, "do not name a job"),
    ],
)
def test_errors_name_the_option_workers(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ClusterError, match=f"(?s){says}.*--workers"):
        hydra_membership({**RANK, **changed}, job)


def test_a_rank_without_a_proxy_is_refused() -> None:
    with pytest.raises(ClusterError, match="do not name a job of 3 ranks"):
        hydra_membership(RANK, lambda: None)


def test_the_proxy_is_found_behind_shells(tmp_path: Path) -> None:
    for pid, name, parent in ((9, "python) x", 8), (8, "sh", 7), (7, "hydra_pmi_proxy", 6), (6, "hydra_pmi_proxy", 1)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *(["0"] * 17), f"{pid}00", "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")
    assert proxy_of_this_process(tmp_path, 9) == "7:700"
    assert proxy_of_this_process(tmp_path, 6) == "6:600"
    assert proxy_of_this_process(tmp_path, 1) is None


def test_slurm_decides_of_the_tasks_that_it_gives_pmi() -> None:
    environ = {"PMI_RANK": "1", "PMI_SIZE": "2", "SLURM_PROCID": "1", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}
    assert discover(environ=environ).cluster is None
    with pytest.raises(ClusterError, match=r"MPI \(Hydra\) started 2 ranks"):
        discover(environ={**environ, "MPI_LOCALNRANKS": "1"})


def test_a_rank_that_pmix_alone_knows_is_refused() -> None:
    """Each would train alone, and say that all is well."""
    with pytest.raises(ClusterError, match="rank 1 of a PMIx job, and no variable says of how many.*--nproc 1"):
        discover(environ={"PMIX_RANK": "1", "PMIX_NAMESPACE": "a"})
    assert discover(nproc=1, environ={"PMIX_RANK": "1"}).cluster is None
    slurm = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}
    assert discover(environ={"PMIX_RANK": "0", **slurm}).cluster is None
