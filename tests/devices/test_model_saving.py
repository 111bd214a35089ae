"""Models and weights on the disk: whatever ends the writer, what is there is of one model and whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.src.saving import saving_lib

from tfdist import keras_repairs
from tfdist.keras_repairs.files import hdf5_files

INDEX = "sharded.weights.json"
SHARD_GIGABYTES = 2e-7
RENAMES = ("rename", "replace", "unlink")


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.fixture(autouse=True)
def repaired() -> None:
    keras_repairs.install()


def model_of(value: float) -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6), keras.layers.Dense(6)])
    model.set_weights([np.full_like(weight, value) for weight in model.get_weights()])
    return model


def save_sharded(model: keras.Model, folder: Path) -> None:
    model.save_weights(folder / INDEX, max_shard_size=SHARD_GIGABYTES)


def shards(folder: Path) -> set[str]:
    return set(keras.tree.flatten(json.loads((folder / INDEX).read_text())["weight_map"]))


def killed_at(number: int, act: Callable[[], None]) -> int:
    """Acts, and is killed before its `number`-th rename or removal; returns how many it had begun."""
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                raise Killed
            return original(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in RENAMES:
            patch.setattr(os, name, counted(getattr(os, name)))
        # A process that is killed clears nothing away.
        patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
        try:
            act()
        except Killed:
            return number
    return calls


def each_kill(folder: Path, before: Callable[[Path], None], act: Callable[[Path], None]) -> Iterator[Path]:
    """Acts in a folder of its own for each rename, and is killed before it."""
    number, ended = 0, False
    while not ended:
        number += 1
        at = folder / str(number)
        at.mkdir()
        before(at)
        ended = killed_at(number, lambda at=at: act(at)) < number
        yield at
    assert number > 2, "there was nothing to be killed at"


def test_an_index_names_no_shard_that_is_not_there(tmp_path: Path) -> None:
    found = []
    for folder in each_kill(tmp_path, lambda at: None, lambda at: save_sharded(model_of(1.0), at)):
        found.append((folder / INDEX).exists())
        if found[-1]:
            assert len(shards(folder)) > 1
            assert all((folder / shard).exists() for shard in shards(folder))
    assert found[-1] and not found[0]


def test_an_index_names_no_shards_of_two_models(tmp_path: Path) -> None:
    """Rather none at all, while those of the earlier one are replaced."""
    loaded = []
    for folder in each_kill(
        tmp_path, lambda at: save_sharded(model_of(1.0), at), lambda at: save_sharded(model_of(2.0), at)
    ):
        if (folder / INDEX).exists():
            model = model_of(0.0)
            model.load_weights(folder / INDEX)
            values = {float(value) for weight in model.get_weights() for value in weight.flat}
            assert len(values) == 1
            loaded += values
    assert (loaded[0], loaded[-1]) == (1.0, 2.0)


@pytest.mark.parametrize("name", ["a.weights.h5", "a.h5", "a.keras"])
def test_no_file_of_hdf5_is_written_that_loses_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of a disk that takes no more is in `test_hdf5_disk_file`."""
    # As where the weights would not fit into memory beside the model.
    monkeypatch.setattr(saving_lib, "is_memory_sufficient", lambda model: False)
    opened = []

    class Noted(hdf5_files.DiskFile):
        def __init__(self, path: str, mode: str) -> None:
            super().__init__(path, mode)
            opened.append(path)

    monkeypatch.setattr(hdf5_files, "DiskFile", Noted)
    model_of(1).save_weights(tmp_path / name) if "weights" in name else model_of(1).save(tmp_path / name)
    assert len(opened) == 1 and (tmp_path / name).exists()
