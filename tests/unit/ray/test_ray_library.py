from __future__ import annotations

import sys

import pytest

from tests.helpers.ports import free_ports
from tfdist.errors import FormingError, UsageError
from tfdist.ray.ray_library import connected, ray_library


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r'pip install "tfdist\[ray\]"'):
        ray_library()


@pytest.mark.parametrize(
    "address", ["ray://h1:10001", "h1", "h1:", ":6379", "h1:99999", "h1:x", "local"], ids=lambda text: text
)
def test_addresses_that_are_none(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", sys)
    with pytest.raises(UsageError, match="--address"), connected(address):
        pass


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", sys)
    (port,) = free_ports(1)
    with pytest.raises(FormingError, match="refused.*ray start --head"), connected(f"127.0.0.1:{port}"):
        pass
