"""Which connections of workers go through a proxy: none of those to one another."""

from __future__ import annotations

import pytest

from tests.unit.launch.test_environment import ALONE, SECOND
from tfdist.cluster import Cluster
from tfdist.launch.worker.proxies import proxy_settings

CLUSTER = Cluster.parse("a:1,b:2,a:3,[::1f]:4")


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
def test_what_the_user_exempts_stays_exempt(exempt: dict[str, str], before: str) -> None:
    assert proxy_settings({"http_proxy": "p", **exempt}, CLUSTER)["no_grpc_proxy"] == f"{before},a,b,::1f"


def test_workers_of_several_get_it() -> None:
    assert SECOND.to_environ({"http_proxy": "p"})["no_grpc_proxy"] == "a,b"
    assert "no_grpc_proxy" not in ALONE.to_environ({"http_proxy": "p"})
