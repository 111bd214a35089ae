"""Runs the scripts of this folder under `tfdist train`, and reads what each worker said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.helpers.cli_process import UNCHECKED, tfdist

SCRIPTS = Path(__file__).parent / "scripts"
BOUND = 120  # seconds; a sixth of it on a machine that has nothing else to do
ROUNDING = 1e-5

EMULATED = {"TFDIST_EMULATE_GPUS": "nccl"}
"""With this, workers on CPUs take every path of NCCL, over TensorFlow's ring."""


def all_said(run: Path, index: int) -> list[Any]:
    """What worker `index` said in its log's lines of JSON."""
    lines = (run / "logs" / f"worker-{index}.0.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def said(run: Path, index: int) -> Any:
    """What it said last."""
    return all_said(run, index)[-1]


def train(
    run: Path,
    script: str,
    *arguments: object,
    workers: int = 2,
    communication: str = "auto",
    code: int = 0,
    timeout: float = BOUND,
    environ: Mapping[str, str] | None = None,
    are_warm: bool = True,
) -> list[Any]:
    """Runs a script on some workers, asserts its exit code and returns what each of them said last."""
    options = ["--nproc", workers, "--communication", communication, "--run-dir", run, "--step-timeout", 30, *UNCHECKED]
    done = tfdist("train", *options, SCRIPTS / script, *arguments, timeout=timeout,
                  environ=environ, are_warm=are_warm)  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return [said(run, index) for index in range(workers)]


def assert_close(one: Any, two: Any) -> None:
    """Compares structures of numbers, up to rounding."""
    ones, twos = keras.tree.flatten(one), keras.tree.flatten(two)
    keras.tree.assert_same_structure(one, two)
    np.testing.assert_allclose(twos, ones, rtol=ROUNDING, atol=ROUNDING)
