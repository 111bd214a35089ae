"""Runs with checkpoints, written as a run writes them, but for the model."""

from __future__ import annotations

import io
import json
import time
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.checkpoint_files import WEIGHTS
from tfdist.checkpoint.shards.joined_file import REST, SHARD_TABLE, shard_file_name
from tfdist.rundir import RunDir, create_run_dir
from tfdist.sharding.file_shards import FileShards, SharedValue

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


def shard(folder: Path, workers: int) -> bytes:
    """Turns a checkpoint into one whose workers have each written a shard; returns its file of weights."""
    content = (folder / WEIGHTS).read_bytes()
    with h5py.File(folder / WEIGHTS) as file:
        data = file["layers/dense/vars/0"]
        begin, size, item = data.id.get_offset(), data.nbytes, data.dtype.itemsize
    bounds = tuple(size // item * worker // workers * item for worker in range(workers + 1))
    shards = FileShards(len(content), workers, (SharedValue(begin, bounds),))
    (folder / WEIGHTS).unlink()
    (folder / SHARD_TABLE).write_text(json.dumps(shards.to_dict()))
    (folder / REST).write_bytes(content[:begin] + content[begin + size :])
    for worker in range(workers):
        start, stop = bounds[worker : worker + 2]
        (folder / shard_file_name(worker, workers)).write_bytes(content[begin + start : begin + stop])
    mark(folder)
    return content


def mark(folder: Path) -> None:
    """Writes a checkpoint's marker so that it fits the files that are there."""
    files = {
        file.name: {"bytes": file.stat().st_size, "crc32": zlib.crc32(file.read_bytes())}
        for file in folder.iterdir()
        if file.name != checkpoint_files.MARKER
    }
    (folder / checkpoint_files.MARKER).write_text(json.dumps({"format": 2, "files": files}))


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
