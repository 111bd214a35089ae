"""Variables that a worker gets if the user has not set them: malloc's, gRPC's proxy and Keras's backend.

Variables with which a training would be wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.launch.test_environment import ALONE, SECOND
from tfdist.cluster import Cluster
from tfdist.errors import UsageError
from tfdist.launch.worker.worker_variables import (
    allocator_settings,
    check_objections,
    proxy_settings,
)

CLUSTER = Cluster.parse("a:1,b:2,a:3,[::1f]:4")


def test_freed_memory_is_kept_on_the_cpu(tmp_path: Path) -> None:
    assert allocator_settings({"PATH": "/bin"}, tmp_path / "nvidiactl")["MALLOC_ARENA_MAX"] == "1"


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"])
def test_the_users_malloc_settings_stand(name: str, tmp_path: Path) -> None:
    assert allocator_settings({name: "4"}, tmp_path / "nvidiactl") == {}


def test_malloc_is_left_alone_on_machines_with_gpus(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert allocator_settings({}, tmp_path / "nvidiactl") == {}


@pytest.mark.parametrize("environ", [{}, {"PATH": "/bin"}, {"https_proxy": ""}, {"no_proxy": "x"}])
def test_without_a_proxy_nothing_is_set(environ: dict[str, str]) -> None:
    assert proxy_settings(environ, CLUSTER) == {}


@pytest.mark.parametrize("name", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_each_host_is_exempt_from_a_proxy(name: str) -> None:
    assert proxy_settings({name: "http://proxy:3128"}, CLUSTER) == {"no_grpc_proxy": "a,b,::1f"}


@pytest.mark.parametrize(
    ("exempt", "before"),
    [
        ({"no_proxy": ".here,c"}, ".here,c"),
        ({"no_grpc_proxy": "d"}, "d"),
        ({"no_proxy": ".here", "no_grpc_proxy": "d"}, "d"),
        ({"no_proxy": ".here", "no_grpc_proxy": ""}, ".here"),
    ],
)
def test_hosts_that_the_user_exempts_stay_exempt(exempt: dict[str, str], before: str) -> None:
    assert proxy_settings({"http_proxy": "p", **exempt}, CLUSTER)["no_grpc_proxy"] == f"{before},a,b,::1f"


def test_several_workers_get_the_exemption() -> None:
    assert SECOND.to_environ({"http_proxy": "p"})["no_grpc_proxy"] == "a,b"
    assert "no_grpc_proxy" not in ALONE.to_environ({"http_proxy": "p"})


@pytest.mark.parametrize("environ", [{}, {"KERAS_BACKEND": ""}, {"KERAS_BACKEND": "tensorflow"}])
def test_workers_get_keras_on_tensorflow(environ: dict[str, str]) -> None:
    assert ALONE.to_environ(environ)["KERAS_BACKEND"] == "tensorflow"


FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"KERAS_BACKEND": ""},
        {"KERAS_BACKEND": "tensorflow"},
        {"TF_USE_LEGACY_KERAS": "0"},
        {FROZEN: "0"},
        {FROZEN: "false"},
        {FROZEN: ""},
    ],
)
def test_nothing_is_wrong(environ: dict[str, str]) -> None:
    check_objections(environ)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"KERAS_BACKEND": "jax"}, "KERAS_BACKEND is jax. Expected tensorflow"),
        ({"TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS is 1, with which tf.keras is Keras 2. Expected Keras 3"),
        ({FROZEN: "1"}, f"{FROZEN} is 1, with which .* Unset {FROZEN}"),
        ({FROZEN: "TRUE"}, f"{FROZEN} is TRUE"),
    ],
)
def test_what_is_wrong_is_refused(environ: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_objections(environ)
