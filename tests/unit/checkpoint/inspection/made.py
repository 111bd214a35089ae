"""Runs with checkpoints, written as a run writes them, but for the model."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfdist.checkpoint import checkpoint_files
from tfdist.rundir import RunDir, create_run_dir

EPOCH = 10


def run_with(folder: Path, *steps: int) -> RunDir:
    """A run with a checkpoint of each of some steps."""
    run = create_run_dir(folder, name="digits")
    for step in steps:
        save(run, step)
    return run


def save(run: RunDir, step: int, weights: dict[str, Any] | None = None, **told: Any) -> None:
    """A checkpoint; weights are path -> array."""
    epochs = step // EPOCH
    history = {"loss": [1.0 / n for n in range(1, epochs + 1)], "val_loss": [2.0 / n for n in range(1, epochs + 1)]}
    summary = {
        "epoch": epochs,
        "step": step % EPOCH,
        "total": step,
        "seed": 7,
        "batch_size": 32,
        "samples": 320,
        "workers": 2,
        "replicas": 2,
        "time": time.time() - 600,
        "logs": {"loss": 0.5},
        "record": {"history": history},
        "config": {"fit": {"epochs": 5}},
        "versions": {"keras": "3.15.1"},
        **told,
    }
    model, replicas = io.BytesIO(), io.BytesIO()
    with h5py.File(model, "w") as file:
        for path, value in (weights or {"layers/dense/vars/0": np.full((3, 4), step, np.float32)}).items():
            file[path] = value
        file["layers/dense/vars"].attrs["name"] = "classifier"
    np.savez(replicas, seeds=np.arange(4))
    with checkpoint_files.writing(run.checkpoints_dir, step) as draft:
        draft.add("model.weights.h5", model.getvalue())
        draft.add("replicas.npz", replicas.getvalue())
        draft.add("summary.json", json.dumps(summary).encode())


def folder_of(run: RunDir, step: int) -> Path:
    return run.checkpoints_dir / f"step-{step:08d}"


def damage(file: Path) -> None:
    """Changes a byte in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    """Takes the last byte away."""
    file.write_bytes(file.read_bytes()[:-1])
