from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from tfdist.runtime import tensorflow_probe


@pytest.mark.parametrize(
    ("number", "text"), [(22703, "2.27.3"), (21805, "2.18.5"), (2804, "2.8.4"), (2708, "2.7.8"), (30001, "3.0.1")]
)
def test_nccls_number_as_people_write_it(number: int, text: str) -> None:
    assert tensorflow_probe.dotted(number) == text


def test_an_installed_nccl_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        SimpleNamespace(metadata={"Name": None}, version=None),
        SimpleNamespace(metadata={"Name": "nvidia-nccl-cu12"}, version="2.27.7"),
    ]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)
    assert tensorflow_probe.nccl_version() == "2.27.7 (nvidia-nccl-cu12)"


def test_an_nccl_that_is_nowhere_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(importlib.metadata, "distributions", list)
    monkeypatch.setattr(tensorflow_probe.ctypes, "CDLL", absent)
    assert tensorflow_probe.nccl_version() is None
