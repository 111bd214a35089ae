"""Trains with sharded checkpoints: `-m tests.workers.sharded_checkpoints FOLDER [OPTIONS]`.

A directory below FOLDER for each `fit` holds its checkpoints, and Keras's own file of the weights at its end. With
`--kill N` worker 1 is killed while it writes its N-th shard; then there is one `fit`, as with `--once`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np

import tfdist
from tests.helpers.cut_weights import cut_all
from tests.helpers.plain_graphs import leave_graphs_plain
from tfdist.checkpoint.shards import staging_folder
from tfdist.keras_repairs.sharding_policies import shards
from tfdist.rundir import direct_io

ROWS, LENGTH, SAMPLES = 61, 5, 65


def model(accumulated: int | None = None) -> keras.Model:
    """With a weight that is large enough to be shared where all workers have it whole, and one of 16 bits."""
    leave_graphs_plain()
    keras.utils.set_random_seed(3)
    inputs = keras.Input((LENGTH,), dtype="int32")
    rows = keras.layers.Embedding(ROWS, 7)(inputs)
    hidden = keras.layers.Dense(2500, "tanh")(keras.layers.GlobalAveragePooling1D()(rows))
    hidden = keras.layers.BatchNormalization()(hidden)
    half = keras.layers.Dense(5, "tanh", dtype="bfloat16")(hidden)
    made = keras.Model(inputs, keras.layers.Dense(3, "softmax", dtype="float32")(half))
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=1.0, gradient_accumulation_steps=accumulated)
    made.compile(keras.optimizers.LossScaleOptimizer(optimizer), "sparse_categorical_crossentropy")
    return made


def fit(made: keras.Model, folder: Path) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, ROWS, (SAMPLES, LENGTH))
    callbacks = tfdist.callbacks(folder, every_steps=2, every_minutes=None, keep=9)
    made.fit(x, x.sum(axis=1) % 3, batch_size=16, epochs=2, verbose=0, callbacks=callbacks)
    made.save_weights(folder / "whole.weights.h5")


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Worker 1 reaches no folder of the chief's, as on another host."""
    hidden = (lambda path: "") if tfdist.worker_index() == 1 else None
    names = ("token_in", "small_text") if hidden else ()
    with contextlib.ExitStack() as patches:
        for name in names:
            patches.enter_context(mock.patch.object(staging_folder, name, hidden))
        yield


@contextlib.contextmanager
def with_writing(write: Any) -> Iterator[None]:
    """Worker 1 writes its shards by another function."""
    replaces = tfdist.worker_index() == 1
    with mock.patch.object(direct_io, "write_uncached", write) if replaces else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def most_wholes() -> Iterator[list[int]]:
    """How many variables are put together inside, and how many of them this worker has at most at a time."""
    said, alive, join = [0, 0], 0, shards.all_gather_array

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def noted(*given: Any) -> Any:
        nonlocal alive
        whole = join(*given)
        alive += 1
        weakref.finalize(whole, gone)
        said[:] = said[0] + 1, max(said[1], alive)
        return whole

    with mock.patch.object(shards, "all_gather_array", noted):
        yield said


def full(path: Path, content: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def killed_at(number: int) -> Any:
    left, write = number, direct_io.write_uncached

    def killed(path: Path, content: memoryview) -> None:
        nonlocal left
        left -= 1
        if left:
            write(path, content)
            return
        path.write_bytes(content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    return killed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--kill", type=int)
    parser.add_argument("--accumulate", type=int)
    options = parser.parse_args()
    cut_all()
    made = model(options.accumulate)
    if options.once or options.kill:
        with with_writing(killed_at(options.kill)) if options.kill else contextlib.nullcontext():
            fit(made, options.folder / "together")
    else:
        fit(made, options.folder / "together")
        with most_wholes() as most:
            made.save(options.folder / "together" / "model.keras")
        with apart():
            fit(made, options.folder / "apart")
        with with_writing(full):
            fit(made, options.folder / "full")
        print(json.dumps({"wholes": most}))


if __name__ == "__main__":
    main()
