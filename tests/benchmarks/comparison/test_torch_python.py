from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.comparison import torch_python
from benchmarks.comparison.torch_python import TorchPythonError, find_torch

FACTS = {"torch": "2.13.0", "python": "3.11.7", "capability": "AVX2", "onednn": True, "mkl": True, "gloo": True}


def interpreter(folder: Path, does: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_without_a_path_this_interpreter_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch_python.importlib.util, "find_spec", lambda name: None)
    assert find_torch(None) is None
    monkeypatch.setattr(torch_python.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(torch_python.sys, "executable", interpreter(tmp_path, f"echo '{json.dumps(FACTS)}'"))
    found = find_torch(None)
    assert found is not None and found.facts == FACTS


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo 'No module named torch' >&2; exit 1", "Received: No module named torch"),
        ("exit 1", "Received: nothing"),
        (f"echo '{json.dumps({**FACTS, 'gloo': False})}'", "PyTorch 2.13.0 without gloo"),
    ],
)
def test_a_path_that_does_not_do_is_refused(does: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TorchPythonError, match=said):
        find_torch(interpreter(tmp_path, does))


def test_a_path_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TorchPythonError, match="No such file"):
        find_torch(str(tmp_path / "absent"))
