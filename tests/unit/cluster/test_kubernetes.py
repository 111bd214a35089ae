from __future__ import annotations

import pytest

from tfdist.cluster import discover, kubernetes
from tfdist.errors import ClusterError

POD = {"JOB_COMPLETION_INDEX": "2", "TFDIST_WORKERS": "digits-{0-3}.digits:20000"}


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("a:1,b:2", ["a:1", "b:2"]),
        ("digits-{0-2}.digits:20000", ["digits-0.digits:20000", "digits-1.digits:20000", "digits-2.digits:20000"]),
        ("d-{9-10}:1", ["d-9:1", "d-10:1"]),  # in the order of numbers, not of text
        ("d-{08-10}:1", ["d-08:1", "d-09:1", "d-10:1"]),  # leading zeros stay
        ("d-{7-7}:1", ["d-7:1"]),
        ("chief:1, d-{0-1}.x:2 ,[fd00::{1-2}]:3", ["chief:1", "d-0.x:2", "d-1.x:2", "[fd00::1]:3", "[fd00::2]:3"]),
        ("10.0.0.1:{20000-20001}", ["10.0.0.1:20000", "10.0.0.1:20001"]),
    ],
)
def test_ranges_are_expanded(text: str, workers: list[str]) -> None:
    assert [str(worker) for worker in kubernetes.expand_workers(text).workers] == workers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "makes no cluster. A worker list must name at least one worker"),
        (" ", "at least one worker"),
        ("a:1,", "empty entry"),
        ("d-{0-3}.d", "without a port"),
        ("d-{3-0}:1", "a range that goes upward"),
        ("d-{0-65536}:1", "65,536 workers at most"),
        ("d-{0-65535}:1,e-{0-0}:1", "65,536 workers at most"),
        ("d-{0-65535}:1,e:1", "65,536 workers at most"),
        ("d-{0-1}-{0-1}:1", "one range in an entry"),
        ("d-{}.d:1", "must be a name"),
        ("d-{0..3}.d:1", "must be a name"),  # as a shell has it
        ("d-{1}.d:1", "must be a name"),
        ("d:{0-1}", "must be 1 to 65535"),
        ("d-{0-1}:1,d-1:1", "Workers 1 and 2 have the same address"),
        ("d{0-1}" + "x" * 600 + ":1", "workers at most"),
        ("d{0-1}:1," * 40_000, "workers at most"),
    ],
)
def test_other_lists_are_refused(text: str, says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        kubernetes.expand_workers(text)
    assert str(raised.value).startswith("The environment variable TFDIST_WORKERS ") and says in str(raised.value)
    assert "such as digits-{0-3}.digits:20000" in str(raised.value) and len(str(raised.value)) < 1500


def test_each_pod_has_its_membership() -> None:
    found = kubernetes.indexed_job_membership(POD)
    assert found is not None and found.cluster is not None
    assert str(found.cluster) == ",".join(f"digits-{i}.digits:20000" for i in range(4))
    assert (found.local, found.machine, found.ports_chosen) == ((2,), (2,), False)
    assert found.source == "Kubernetes (JOB_COMPLETION_INDEX and TFDIST_WORKERS)"


def test_pods_with_one_address_share_a_machine() -> None:
    """Those with hostNetwork."""
    found = kubernetes.indexed_job_membership({"JOB_COMPLETION_INDEX": "1", "TFDIST_WORKERS": "n:1,n:2,m:1"})
    assert found is not None and (found.local, found.machine) == ((1,), (0, 1))


def test_one_pod_is_one_worker() -> None:
    found = kubernetes.indexed_job_membership({"JOB_COMPLETION_INDEX": "0", "TFDIST_WORKERS": "digits-{0-0}.digits:1"})
    assert found is not None and (found.cluster, found.local) == (None, (0,))


@pytest.mark.parametrize("environ", [{}, {"JOB_COMPLETION_INDEX": "3"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_pods_without_a_list_train_each_alone(environ: dict[str, str]) -> None:
    """As those of an Indexed Job do that tries one setting each."""
    assert kubernetes.indexed_job_membership(environ) is None
    assert discover(environ=environ).cluster is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"JOB_COMPLETION_INDEX": "4"}, "This pod has the index 4, and TFDIST_WORKERS lists 4 worker(s)"),
        ({"JOB_COMPLETION_INDEX": "-1"}, "must be a number. Received: '-1'"),
        ({"JOB_COMPLETION_INDEX": ""}, "must be a number. Received: ''"),
        ({"JOB_COMPLETION_INDEX": "x" * 900}, "must be a number"),
        ({"TFDIST_WORKERS": ""}, "at least one worker"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        kubernetes.indexed_job_membership({**POD, **changed})
    assert says in str(raised.value) and len(str(raised.value)) < 1000


def test_a_list_without_an_index_is_refused() -> None:
    """Rather than to train each pod alone."""
    with pytest.raises(ClusterError, match="completionMode: Indexed"):
        kubernetes.indexed_job_membership({"TFDIST_WORKERS": "a:1,b:1"})


def test_the_order_of_what_decides() -> None:
    tf_config = '{"cluster": {"worker": ["c:1", "d:1", "e:1"]}, "task": {"type": "worker", "index": 2}}'
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert discover(environ={**POD, **mpi, "PMIX_NAMESPACE": "job"}).num_workers == 4
    assert discover(environ={**POD, "TF_CONFIG": tf_config}, find_local=lambda hosts: frozenset()).num_workers == 3
    assert discover(environ=POD, nproc=2).num_workers == 2
    assert discover(environ=POD, workers="a:1,b:1", find_local=lambda hosts: frozenset({"b"})).local == (1,)


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 120.0),
        ({"KUBERNETES_SERVICE_HOST": ""}, 120.0),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, 900.0),
        ({"JOB_COMPLETION_INDEX": "0"}, 900.0),
    ],
)
def test_pods_wait_longer_for_one_another(environ: dict[str, str], seconds: float) -> None:
    assert kubernetes.start_seconds(environ) == seconds


def test_this_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    assert kubernetes.start_seconds() == 900.0
