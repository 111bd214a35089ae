"""The checkpoints of one run, as all its workers see them: the chief has the files, what is restored comes from it."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint import files
from tfdist.checkpoint.policy import obsolete
from tfdist.checkpoint.summary import Summary
from tfdist.errors import RunDirError
from tfdist.runtime.collectives import worker_count, worker_rank
from tfdist.runtime.from_chief import file_from_chief, text_from_chief

WEIGHTS = "model.weights.h5"
"""Weights and optimizer; `keras.Model.load_weights` reads it."""

REPLICAS = "replicas.npz"
"""Values of which each replica has its own: `runtime.replica_values`."""

SUMMARY = "summary.json"

_log = logging.getLogger("tfdist")


class Checkpoints:
    """Saves and restores. All workers call each method together, unless it says otherwise.

    Attributes:
        folder: Where they lie on the chief's machine.

    Args:
        folder: Where they lie on the chief's machine; made when the first is saved.
        keep: How many to keep, at least 1.
        strategy: The process's strategy.
    """

    def __init__(self, folder: Path, keep: int, strategy: tf.distribute.Strategy) -> None:
        self.folder = folder
        self._keep = keep
        self._strategy = strategy
        self._restored_from: Path | None = None
        self._is_chief = worker_rank(strategy) == 0
        if self._is_chief:
            files.remove_unfinished(folder)

    def save(self, model: keras.Model, values: Mapping[str, np.ndarray], summary: Summary) -> Path:
        """Makes a checkpoint, then removes those that are too many. On the chief alone.

        Args:
            model: Built and compiled.
            values: Those of the replicas.
            summary: The rest.

        Returns:
            Its directory.

        Raises:
            RunDirError: It cannot be written. The earlier ones are as they were.
        """
        with files.writing(self.folder, summary.total) as folder:
            model.save_weights(folder / WEIGHTS)
            np.savez(folder / REPLICAS, **values)
            (folder / SUMMARY).write_text(json.dumps(summary.to_dict()))
        entries = {(entry.step, entry.number): entry for entry in files.stored(self.folder)}
        newest = max(key for key in entries if key[0] == summary.total)
        for key in obsolete(list(entries), newest, self._keep):
            files.remove(entries[key])
        return entries[newest].path

    def latest(self) -> tuple[Summary, str] | None:
        """The latest checkpoint that is whole, and its path on the chief's machine; None when there is none.

        One that is damaged is named in a warning, and the one before is taken.
        """
        text = text_from_chief(self._find_latest() if self._is_chief else "", self._strategy)
        if not text:
            return None
        found = json.loads(text)
        self._restored_from = Path(found["path"])
        return Summary.from_dict(found["summary"]), found["path"]

    def restore_weights(self, model: keras.Model, summary: Summary) -> None:
        """Gives a model the weights, and its optimizer the state, of the checkpoint that `latest` has found.

        Args:
            model: Built and compiled, with its optimizer.
            summary: The checkpoint's.

        Raises:
            RunDirError: The model is another one than that which was saved.
        """
        there, here = [_shown(entry) for entry in summary.variables], [_shown(entry) for entry in variables_of(model)]
        if there != here:
            raise RunDirError(_another_model(self._restored_from, here, there))
        with self._copies((WEIGHTS,)) as (weights,):
            model.load_weights(weights)

    def replica_values(self) -> dict[str, np.ndarray]:
        """The replicas' values of the checkpoint that `latest` has found."""
        with self._copies((REPLICAS,)) as (path,), np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)

    def _find_latest(self) -> str:
        for entry in files.stored(self.folder):
            fault = entry.fault()
            if fault is None:
                summary = json.loads((entry.path / SUMMARY).read_bytes())
                return json.dumps({"path": str(entry.path), "summary": summary})
            _log.warning(
                "The checkpoint %s is damaged: %s. It is passed over for the one before it.", entry.path, fault
            )
        return ""

    @contextlib.contextmanager
    def _copies(self, names: tuple[str, ...]) -> Iterator[tuple[Path, ...]]:
        """The checkpoint's files on this worker's machine, for as long as the block runs."""
        assert self._restored_from is not None, "latest() finds what is restored"
        if worker_count(self._strategy) == 1:
            yield tuple(self._restored_from / name for name in names)
            return
        with tempfile.TemporaryDirectory(prefix="tfdist-checkpoint-") as folder:
            paths = tuple(Path(folder) / name for name in names)
            for path in paths:
                file_from_chief(str(self._restored_from / path.name), path, self._strategy)
            yield paths


def variables_of(model: keras.Model) -> list[tuple[list[int], str]]:
    """Shape and dtype of each variable in a file of `model`'s weights: the model's, then the optimizer's."""
    return [(list(variable.shape), str(variable.dtype)) for variable in (*model.weights, *model.optimizer.variables)]


def _shown(entry: object) -> str:
    shape, dtype = entry  # type: ignore[misc]
    return f"{dtype} {tuple(shape)}"


def _another_model(path: Path | None, here: list[str], there: list[str]) -> str:
    place = next((i for i, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None)
    what = (
        f"it has {len(there)} variables, with the optimizer's, and the model {len(here)}"
        if place is None
        else f"variable {place} is {there[place]} there and {here[place]} in the model"
    )
    return (
        f"The checkpoint {path} is of another model or optimizer than the config's: {what}. Expected the config that "
        "was trained. Train with that one, or choose another --run-dir."
    )
