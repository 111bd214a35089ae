from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from tfdist.runtime import nccl_version


@pytest.mark.parametrize(
    ("number", "text"), [(22703, "2.27.3"), (21805, "2.18.5"), (2804, "2.8.4"), (2708, "2.7.8"), (30001, "3.0.1")]
)
def test_nccls_number_as_people_write_it(number: int, text: str) -> None:
    assert nccl_version.dotted(number) == text


def test_an_installed_nccl_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        SimpleNamespace(metadata={"Name": None}, version=None),
        SimpleNamespace(metadata={"Name": "nvidia-nccl-cu12"}, version="2.27.7"),
    ]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)
    assert nccl_version.nccl_version() == "2.27.7 (nvidia-nccl-cu12)"


def test_an_nccl_that_is_nowhere_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(importlib.metadata, "distributions", list)
    monkeypatch.setattr(nccl_version.ctypes, "CDLL", absent)
    assert nccl_version.nccl_version() is None


@pytest.mark.parametrize(
    ("version", "shares"),
    [
        ("2.30.1 (nvidia-nccl-cu12)", True),
        ("2.31.2 (libnccl.so.2)", True),
        ("3.0.1 (libnccl.so.2)", True),
        ("2.29.9 (nvidia-nccl-cu12)", False),
        ("2.4.8 (libnccl.so.2)", False),
        (None, False),  # built into TensorFlow, perhaps: an older one
    ],
)
def test_workers_share_a_gpu_from_2_30_on(version: str | None, shares: bool) -> None:
    assert nccl_version.lets_workers_share_a_gpu(version) == shares
