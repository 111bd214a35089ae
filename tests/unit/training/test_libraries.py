"""Keras 2 may be imported, by a library too, and does not train."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.legacy_package import write_legacy_keras
from tfdist.errors import UnsupportedError
from tfdist.training.libraries import refuse_legacy_keras


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tf_keras to import, and no trace of it afterwards."""
    write_legacy_keras(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "tf_keras", raising=False)
    yield
    sys.modules.pop("tf_keras", None)


def imported(*, before: bool) -> Any:
    if before:
        importlib.import_module("tf_keras")
    refuse_legacy_keras()
    refuse_legacy_keras()
    return importlib.import_module("tf_keras")


@pytest.mark.parametrize("before", [True, False])
def test_training_is_refused(before: bool) -> None:
    module = imported(before=before)
    with pytest.raises(UnsupportedError, match=r"calls tf_keras.Model.fit.*without TF_USE_LEGACY_KERAS"):
        module.Model().fit([1.0])
    with pytest.raises(UnsupportedError, match="tf_keras.optimizers.Optimizer.apply_gradients"):
        module.optimizers.Optimizer().apply_gradients([])


def test_all_else_is_left_alone() -> None:
    module = imported(before=False)
    assert module.Model()(3) == 4
    assert module.__spec__.name == "tf_keras"
    assert importlib.import_module("tf_keras.api") is not None


def test_a_process_without_it_finds_out_as_without_tfdist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    refuse_legacy_keras()
    with pytest.raises(ModuleNotFoundError, match="tf_keras"):
        importlib.import_module("tf_keras")
