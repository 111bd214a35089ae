"""Repairs of BackupAndRestore on several workers: the chief has the files, and every worker restores from them.

The workers need not share a file system. They restore what Keras restores: weights, the optimizer's state and the
epoch; an interrupted epoch is trained again from its start.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.optimizer.gradient_accumulation import reduce_before_checkpoint
from tfdist.keras_repairs.sharding_policies.full_state import take_part
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import file_from_chief
from tfdist.runtime.collectives.decisions import all_reduce, broadcast
from tfdist.runtime.workers import worker_count, worker_rank

Function = Callable[..., Any]


def restore(original: Function) -> Function:
    """Repairs `BackupAndRestore.on_train_begin`."""

    def repaired(self: Any, logs: Any = None) -> None:
        strategy = self.model.distribute_strategy
        if worker_count(strategy) == 1:
            original(self, logs)
            return
        error = _restore(self, strategy)
        if error is None:
            return
        if not broadcast(_bring_back_previous(self, strategy), strategy=strategy):
            raise error
        error = _restore(self, strategy)
        if error is not None:
            raise error

    return repaired


def back_up(original: Function) -> Function:
    """Repairs `BackupAndRestore._save_model`: the chief writes, and each file is whole at any moment."""

    def repaired(self: Any) -> None:
        strategy = self.model.distribute_strategy
        if self.save_freq != "epoch":
            reduce_before_checkpoint(self.model)
        if worker_count(strategy) == 1:
            original(self)
        elif worker_rank(strategy) == 0:
            _back_up(self)
        else:
            take_part(self.model)

    return repaired


def clean_up(original: Function) -> Function:
    """Repairs `BackupAndRestore.on_train_end`: the chief deletes."""

    def repaired(self: Any, logs: Any = None) -> None:
        strategy = self.model.distribute_strategy
        if worker_count(strategy) == 1 or worker_rank(strategy) == 0:
            original(self, logs)

    return repaired


def _restore(callback: Any, strategy: tf.distribute.Strategy) -> OSError | None:
    """Restores from copies of the chief's files; returns why it could not, on every worker when one could not."""
    error = None
    with temporary_folder("backup") as folder, _looking_in(callback, folder) as paths:
        for source, copy in paths:
            file_from_chief(source, copy, strategy)
        try:
            callback._load_model()
        except OSError as caught:
            error = caught
    if not all_reduce(error is not None, "max", strategy):
        return None
    return error or OSError(f"Another worker could not read the backup in {callback.backup_dir}.")


@contextlib.contextmanager
def _looking_in(callback: Any, folder: Path) -> Iterator[list[tuple[str, Path]]]:
    """Lets Keras's own code read in `folder`; yields the paths of the files and where their copies belong."""
    names = ("_weights_path", "_training_metadata_path")
    sources = [getattr(callback, name) for name in names]
    copies = [folder / Path(source).name for source in sources]
    for name, copy in zip(names, copies, strict=True):
        setattr(callback, name, str(copy))
    try:
        yield list(zip(sources, copies, strict=True))
    finally:
        for name, source in zip(names, sources, strict=True):
            setattr(callback, name, source)


def _bring_back_previous(callback: Any, strategy: tf.distribute.Strategy) -> bool:
    """Makes the chief's previous backup the latest, as Keras does when the latest cannot be read."""
    if worker_rank(strategy) != 0 or not tf.io.gfile.exists(callback._prev_weights_path):
        return False
    _copy(callback._prev_weights_path, callback._weights_path)
    if tf.io.gfile.exists(callback._prev_training_metadata_path):
        _copy(callback._prev_training_metadata_path, callback._training_metadata_path)
    elif tf.io.gfile.exists(callback._training_metadata_path):
        tf.io.gfile.remove(callback._training_metadata_path)
    return True


def _back_up(callback: Any) -> None:
    tf.io.gfile.makedirs(callback.backup_dir)
    if callback.double_checkpoint:
        for latest, previous in (
            (callback._weights_path, callback._prev_weights_path),
            (callback._training_metadata_path, callback._prev_training_metadata_path),
        ):
            if tf.io.gfile.exists(latest):
                _copy(latest, previous)
    callback.model.save_weights(filepath=callback._weights_path, overwrite=True)
    content = {"epoch": callback._current_epoch, "batch": callback._last_batch_seen}
    with _replacing(callback._training_metadata_path) as path, tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content))


def _copy(source: str, target: str) -> None:
    with _replacing(target) as path:
        tf.io.gfile.copy(source, path, overwrite=True)


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[str]:
    """Yields a path beside `path`; what is written there takes its place at a clean exit."""
    beside = f"{path}.tmp"
    yield beside
    tf.io.gfile.rename(beside, path, overwrite=True)
