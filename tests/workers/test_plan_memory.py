"""`tfdist plan --memory` of a config and of a model that cannot be made, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist

CONFIG = ROOT / "configs" / "digits.yaml"


def test_a_model_larger_than_the_device_and_the_mode_that_fits() -> None:
    done = tfdist("plan", CONFIG, "--nproc", 4, "--memory", "--json", "--set", "model.args.hidden=[4096,4096]")
    assert (done.returncode, done.stderr) == (0, "")
    modes = json.loads(done.stdout)["memory"]["modes"]
    weights = 64 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10
    assert modes["none"]["parameters"] == modes["zero2"]["parameters"] == 4 * weights
    assert modes["none"]["optimizer"] == 8 * weights
    assert 0 <= modes["zero1"]["optimizer"] - 2 * weights < 8 * 4096
    assert modes["none"]["activations"] > 0


@pytest.mark.slow
def test_a_mistake_in_the_config_is_told_as_a_run_tells_it() -> None:
    done = tfdist("plan", CONFIG, "--memory", "--set", "model.args.hiden=[8]")
    assert done.returncode == 2
    assert done.stderr.startswith("error: model.args.hiden: "), done.stderr


WIDTH, SHARE = 128, 512
"""Of a block's kernels, which are the smallest that zero3 cuts; and samples of a step on a worker."""


def write_blocks(folder: Path, mode: str, count: int) -> Path:
    """A config of blocks of four Dense layers, whose calls are computed again with the mode `full`."""
    np.savez(folder / "rows.npz", x_train=np.zeros((2 * SHARE, WIDTH), np.float32), y_train=np.zeros(2 * SHARE, int))
    build = {"build": "benchmarks.workers.recomputed_fit.network"}
    content = {
        "name": "blocks",
        "model": {**build, "args": {"mode": mode, "blocks": count, "width": WIDTH}},
        "compile": {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"},
        "data": {"batch_size": 2 * SHARE, "train": {"format": "npz", "path": "rows.npz", "split": "train"}},
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.slow
@pytest.mark.bound(200)
def test_of_calls_that_are_computed_again_one_counts(tmp_path: Path) -> None:
    def planned(mode: str, blocks: int) -> dict[str, dict[str, int]]:
        done = tfdist("plan", write_blocks(tmp_path, mode, blocks), "--nproc", 2, "--memory", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        modes: dict[str, dict[str, int]] = json.loads(done.stdout)["memory"]["modes"]
        return modes

    kept, few, many = planned("keep", 6), planned("full", 3), planned("full", 6)
    weights = (WIDTH + 1) * WIDTH * 4 * 4  # bytes of a block
    output = SHARE * WIDTH * 4
    # A block more keeps its output, of all that it computes, and has more weights to update.
    grown = many["none"]["activations"] - few["none"]["activations"]
    assert 3 * output <= grown <= 3 * (output + 2 * weights)
    assert many["none"]["activations"] < kept["none"]["activations"] / 2
    kernel = WIDTH * WIDTH * 4
    assert kept["zero3"]["whole_layer"] == 2 * kernel
    assert many["zero3"]["whole_layer"] == 4 * kernel + kernel
