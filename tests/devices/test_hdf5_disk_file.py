"""Files that HDF5 writes: the same bytes as by itself, and an error where a disk takes no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import keras
import numpy as np

from tests.helpers.small_training import datasets
from tfdist.keras_repairs.files.hdf5_files import errors_at_the_end

_FULL = """
import errno, importlib, sys
from unittest import mock
import h5py, numpy as np
from tests.helpers.disks import files_of_at_most
# Without what the package imports.
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("disk_file", "tfdist/keras_repairs/files/hdf5_files.py")
module = module_from_spec(spec)
spec.loader.exec_module(module)

for most in (0, 3000, 40_000, 300_000):
    with files_of_at_most(most), module.errors_at_the_end():
        for _ in range(2):
            file = h5py.File(sys.argv[1], "w")
            try:
                for layer in range(60):
                    group = file.create_group(f"layers/{layer}/vars")
                    group.attrs["name"] = "x" * 50
                    group["0"], group["1"] = np.ones((40, 40)), np.arange(40.0)
                file.flush()
            finally:
                try:
                    file.close()
                except OSError as error:
                    assert error.errno == errno.EFBIG
                else:
                    raise AssertionError("a file was written beyond its most")
                del file, group
"""


def test_a_disk_that_takes_no_more_is_an_error_and_no_end(tmp_path: Path) -> None:
    """By itself HDF5 ends the process; so in one of its own."""
    command = [sys.executable, "-c", _FULL, str(tmp_path / "x.h5")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_keras_writes_is_what_it_writes_by_itself(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(90), keras.layers.Dense(50)])
    model.compile("adam", "mse")
    alone, safe = tmp_path / "alone", tmp_path / "safe"

    def write(folder: Path) -> None:
        folder.mkdir()
        model.save_weights(folder / "a.weights.h5")
        model.save(folder / "b.h5")
        model.save_weights(folder / "c.weights.json", max_shard_size=2e-5)

    write(alone)
    with errors_at_the_end():
        write(safe)
    names = sorted(path.name for path in alone.iterdir())
    assert len(names) > 4 and names == sorted(path.name for path in safe.iterdir())
    for name in names:
        if name.endswith(".json"):
            assert (alone / name).read_text() == (safe / name).read_text()
        else:
            # Among them are attributes that are arrays.
            assert repr(datasets(alone / name)) == repr(datasets(safe / name))


def test_modes_of_h5py(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with errors_at_the_end():
        for mode, name in (("a", "first"), ("a", "second"), ("r+", "third")):
            with h5py.File(path, mode) as file:
                file[name] = np.arange(5)
                assert file.filename == str(path)
        with h5py.File(path) as file:
            assert sorted(file) == ["first", "second", "third"]
        with h5py.File(tmp_path / "y.h5", "x") as file:
            file["only"] = 1
    with h5py.File(path) as file:
        assert file["third"][4] == 4
