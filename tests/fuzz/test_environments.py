"""Variables of schedulers and of launchers: a cluster or an error of tfdist's, however long they are."""

from __future__ import annotations

import contextlib
import json
import string
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_json, texts
from tests.fuzz.properties import fuzzed
from tfdist.cluster import discover
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.kubernetes import MOST_WORKERS
from tfdist.errors import ClusterError, UsageError
from tfdist.launch.environment import Assignment, check_environment, choose_kernels_here, read_token

TF_CONFIG = {"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
SLURM = {
    "SLURM_JOB_ID": "1000",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "node[2,10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_DISTRIBUTION": "block",
    "CUDA_VISIBLE_DEVICES": "1",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURMD_TRES_BIND": "gpu:map_gpu:0,1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_NAMESPACE": "job",
}
POD = {"JOB_COMPLETION_INDEX": "1", "TFDIST_WORKERS": "digits-{0-3}.digits:20000"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALNRANKS": "3", "PMI_PORT": "host:20000"}
ASSIGNMENT = Assignment("/r", 7, 1, 2, "script", "x.py", cluster="a:1,b:2", devices=(0, 1), args=("a",))

_BINDINGS = ["gpu:", "mask_gpu:", "0x3", "1*99"]
_LISTS = ["n[0-9]", "[0-99999999]", "[1,2]", "(x99999)", "1(x2)", ",", "-", "[", "]", "(", "0", "9" * 30, "n", "é"]
_LISTS += _BINDINGS
hosts = st.lists(st.sampled_from(_LISTS) | st.text(string.printable, max_size=4), max_size=8).map("".join)
_PARTS = [":", "[", "]", ",", "::1", "a", "1", "%", "0.0.0.0", " ", ".", "65536"]
addresses = st.lists(st.sampled_from(_PARTS), max_size=8)


def as_in_an_environment(text: str) -> str:
    """Bytes that are no UTF-8 are surrogates there, and none is 0."""
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"").decode("utf-8", "surrogateescape")


variables = texts.map(as_in_an_environment) | hosts


def find_local(found: Any) -> frozenset[str]:
    return frozenset({"a"})


@fuzzed(40, text=changed_json(TF_CONFIG) | st.binary(max_size=50))
def test_a_tf_config(text: bytes) -> None:
    with contextlib.suppress(ClusterError):
        found = discover(environ={"TF_CONFIG": text.decode(errors="surrogateescape")}, find_local=find_local)
        assert found.local


@fuzzed(40, changes=st.dictionaries(st.sampled_from(sorted(SLURM)), variables, min_size=1, max_size=3))
def test_a_task_of_slurm(changes: dict[str, str]) -> None:
    with contextlib.suppress(ClusterError):
        assert discover(environ={**SLURM, **changes}, find_local=find_local).local


@fuzzed(25, changes=st.dictionaries(st.sampled_from(sorted(OPEN_MPI)), variables, min_size=1, max_size=3))
def test_a_rank_of_open_mpi(changes: dict[str, str]) -> None:
    with contextlib.suppress(ClusterError):
        assert discover(environ={**OPEN_MPI, **changes}, find_local=find_local).local


_RANGES = st.sampled_from(["{0-2}", "{1-0}", "{0-99999999}", "{0-65535}", "{00-09}", "{", "}", "-", ":1", "a", ","])
workers_of_pods = st.lists(_RANGES, max_size=8).map("".join) | addresses.map("".join) | variables


@fuzzed(40, workers=workers_of_pods, index=st.just("1") | variables)
def test_a_pod_of_kubernetes(workers: str, index: str) -> None:
    with contextlib.suppress(ClusterError):
        environ = {**POD, "TFDIST_WORKERS": workers, "JOB_COMPLETION_INDEX": index}
        found = discover(environ=environ, find_local=find_local)
        assert found.local and found.num_workers <= MOST_WORKERS


@fuzzed(25, changes=st.dictionaries(st.sampled_from([*HYDRA, "PMIX_RANK"]), variables, min_size=1, max_size=3))
def test_a_rank_of_mpich(changes: dict[str, str]) -> None:
    with contextlib.suppress(ClusterError):
        assert discover(environ={**HYDRA, **changes}, find_local=find_local).local


@fuzzed(10, rank=variables)
def test_a_rank_that_pmix_alone_knows(rank: str) -> None:
    with pytest.raises(ClusterError, match="no variable says of how many"):
        discover(environ={"PMIX_RANK": rank}, find_local=find_local)


@fuzzed(40, text=addresses.map("".join) | variables)
def test_a_list_of_workers(text: str) -> None:
    with contextlib.suppress(ClusterError):
        cluster = Cluster.parse(text)
        assert Cluster.parse(str(cluster)) == cluster
        discover(workers=text, environ={}, find_local=find_local)


@fuzzed(40, text=changed_json(json.loads(ASSIGNMENT.to_environ({})["TFDIST_WORKER"])) | st.binary(max_size=50))
def test_an_assignment(text: bytes) -> None:
    """What a worker is told is of its types, or refused."""
    with contextlib.suppress(UsageError):
        found = Assignment.from_environ({"TFDIST_WORKER": text.decode(errors="surrogateescape")})
        if found is not None:
            environ = found.to_environ({})
            assert Assignment.from_environ(environ) == found or "NaN" in environ["TFDIST_WORKER"]


NAMES = ["TFDIST_TOKEN", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS"]


@fuzzed(25, value=variables, name=st.sampled_from(NAMES))
def test_a_variable(value: str, name: str) -> None:
    environ = {name: value}
    run_variables(environ)
    with contextlib.suppress(UsageError):
        check_environment(environ)
        choose_kernels_here(environ=environ)
        token = read_token(environ)
        if token is not None:
            assert token.proves("caller", b"said", token.proof("caller", b"said"))
