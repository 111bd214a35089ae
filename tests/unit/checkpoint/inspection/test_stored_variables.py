from __future__ import annotations

from pathlib import Path

import h5py
import ml_dtypes
import numpy as np
import pytest

from tests.helpers.made_checkpoints import folder_of, run_with, save
from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of
from tfdist.checkpoint.inspection.stored_variables import StoredVariables


def test_variables_of_every_type(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a")
    halves = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    save(
        run,
        10,
        {
            "layers/dense/vars/2": np.array([3.0, 4.0], np.float16),
            "layers/dense/vars/10": np.array([True, False]),
            "optimizer/vars/0": np.int64(7),
            "layers/lookup/vars/table": "words",
        },
    )
    with h5py.File(folder_of(run, 10) / "model.weights.h5", "a") as file:
        data = file["layers/dense/vars"].create_dataset("0", data=halves)
        data.attrs["dtype"] = "bfloat16"  # as Keras does
    with StoredVariables(checkpoints_of(run.path)[1][0]) as found:
        shown = {name: (v.owner, v.shape, v.dtype, v.norm()) for name, v in found.items()}
        values = found["layers/dense/0"].read()
    assert list(shown) == [
        "layers/dense/0",
        "layers/dense/2",
        "layers/dense/10",
        "layers/lookup/table",
        "optimizer/0",
        "replicas/seeds",
    ]
    assert values is not None and values.tolist() == [[1.5, -2.0]]
    assert shown["layers/dense/0"] == ("classifier", (1, 2), "bfloat16", 2.5)
    assert shown["layers/dense/2"] == ("classifier", (2,), "float16", 5.0)
    assert shown["layers/lookup/table"][3] is None
    assert shown["replicas/seeds"][3] == pytest.approx(14**0.5)
