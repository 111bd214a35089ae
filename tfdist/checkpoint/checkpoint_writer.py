"""Writer of one checkpoint: a job for the background."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from tfdist.checkpoint.checkpoint_contents import CheckpointSummary
from tfdist.checkpoint.checkpoint_files import REPLICAS, SUMMARY, WEIGHTS
from tfdist.checkpoint.checkpoint_pruner import CheckpointPruner
from tfdist.checkpoint.checkpoint_store import CheckpointStore
from tfdist.checkpoint.generation_claim import SupersededError
from tfdist.checkpoint.shards.chief_additions import ShardAssembly
from tfdist.errors import RunDirError, StoreError

_log = logging.getLogger("tfdist")


class WeightsSnapshot(Protocol):
    """A copy of a model's weights and its optimizer's state, ready to be written."""

    def take(self) -> None:
        """Copies them to host memory."""

    def content(self) -> memoryview:
        """The content of a file with the latest copy, uint8; called in another thread, and never while `take` runs."""


class CheckpointWriter:
    """Writes one checkpoint, once; its `run` is a job for the background.

    Args:
        store: Where the run's checkpoints lie.
        weights: The weights, copied already: whole, or what is left to write where each worker writes its shard.
        values: The values of the replicas.
        summary: The rest.
        pruner: Removes old ones afterwards.
        check: Called when all is written, before it is whole: raises RunDirError where it must not be published.
        generation: Of the start that writes it, which its marker tells; 0 where none has claimed the folder.

    Attributes:
        is_whole: Whether it is on the disk.
        seconds: How long it took, or took to fail; 0 before.
        superseded: Why it must not be published, where a later start of the run has its checkpoints; None else.
    """

    def __init__(
        self,
        store: CheckpointStore,
        weights: WeightsSnapshot | ShardAssembly,
        values: Mapping[str, np.ndarray],
        summary: CheckpointSummary,
        pruner: CheckpointPruner,
        check: Callable[[], None] = lambda: None,
        generation: int = 0,
    ) -> None:
        self.is_whole = False
        self.seconds = 0.0
        self.superseded: SupersededError | None = None
        self._store = store
        self._weights = weights
        self._values = values
        self._summary = summary
        self._pruner = pruner
        self._check = check
        self._generation = generation

    def run(self) -> None:
        """Writes it; a failure is logged as a warning, and the training continues."""
        begun = time.monotonic()
        self.is_whole = self._is_written()
        del self._weights  # as large as the checkpoint, and the training may be over
        self.seconds = time.monotonic() - begun
        if self.is_whole:
            step = self._summary.total
            _log.info("checkpoint of step %d in %s, written in %.2f s", step, self._store.folder, self.seconds)
            self._prune(step)

    def _is_written(self) -> bool:
        try:
            self._write()
        except SupersededError as error:
            self.superseded = error
        except (RunDirError, StoreError) as error:
            _log.warning("No checkpoint at step %d. The training continues without it. %s", self._summary.total, error)
        except Exception:
            # At the bottom of a thread nothing else would report it.
            _log.warning(
                "No checkpoint at step %d. The training continues without it.", self._summary.total, exc_info=True
            )
        else:
            return True
        return False

    def _prune(self, step: int) -> None:
        try:
            self._pruner.prune(step)
        except (RunDirError, StoreError) as error:
            _log.warning("Old checkpoints stay until the next one is written. %s", error)

    def _write(self) -> None:
        replicas = io.BytesIO()
        values: Mapping[str, Any] = self._values
        np.savez(replicas, **values)
        weights = self._weights
        begun = weights.folder if isinstance(weights, ShardAssembly) else None
        with self._store.writing(self._summary.total, self._generation, begun) as draft:
            if isinstance(weights, ShardAssembly):
                weights.add_to(draft)
            else:
                draft.add(WEIGHTS, weights.content())
            draft.add(REPLICAS, replicas.getbuffer())
            draft.add(SUMMARY, json.dumps(self._summary.to_dict()).encode())
            self._check()
