from __future__ import annotations

import pytest

from tfdist.cluster import mpi
from tfdist.errors import ClusterError

RANK = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_NAMESPACE": "3911712769",
}


def test_ranks_of_one_machine_choose_the_same_list() -> None:
    found = [mpi.open_mpi_membership({**RANK, "OMPI_COMM_WORLD_RANK": str(rank)}) for rank in range(3)]
    assert len({str(place.cluster) for place in found if place is not None}) == 1
    assert [place.local for place in found if place is not None] == [(0,), (1,), (2,)]
    assert all(place is not None and place.machine == (0, 1, 2) for place in found)


@pytest.mark.parametrize("size", [2, 12_000])
def test_ports_stay_below_the_ephemeral_ones(size: int) -> None:
    sizes = {"OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size)}
    for job in range(100 if size == 2 else 1):
        found = mpi.open_mpi_membership({**RANK, **sizes, "PMIX_NAMESPACE": f"job-{job}"})
        assert found is not None and found.cluster is not None
        ports = [address.port for address in found.cluster.workers]
        assert 20000 <= ports[0] == ports[-1] - size + 1 < ports[-1] < 32000


@pytest.mark.parametrize("environ", [{}, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}])
def test_outside_mpirun_or_with_one_rank_there_is_no_membership(environ: dict[str, str]) -> None:
    assert mpi.open_mpi_membership(environ) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "does not say where the others are"),
        ({"OMPI_COMM_WORLD_SIZE": "many"}, "must be a number"),
        ({"OMPI_COMM_WORLD_SIZE": "1" * 5000}, "must be a number"),
        ({"OMPI_COMM_WORLD_SIZE": "12001", "OMPI_COMM_WORLD_LOCAL_SIZE": "12001"}, "do not name a job of 12001 ranks"),
        ({"OMPI_COMM_WORLD_RANK": "3"}, "do not name a job"),
        ({"PMIX_NAMESPACE": ""}, "do not name a job"),
    ],
)
def test_errors_name_the_option_workers(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        mpi.open_mpi_membership({**RANK, **changed})
    assert says in str(raised.value)
    assert "--workers" in str(raised.value)
