"""Pruner of a run's checkpoints: removes what its retention policy keeps no longer."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.checkpoint_policies import CheckpointInfo, RetentionPolicy
from tfdist.checkpoint.checkpoint_store import CheckpointStore

_log = logging.getLogger("tfdist")


def info_of(entry: checkpoint_files.StoredCheckpoint) -> CheckpointInfo:
    """Returns what a retention policy asks of a checkpoint, from its summary; a damaged one tells only its step.

    Raises:
        RunDirError: It cannot be reached, which must not be taken for one that need not be kept.
    """
    try:
        summary = checkpoint_files.summary_of(entry)
        ends_epoch = summary["step"] == 0
        metrics = {name: float(value) for name, value in summary.get("metrics", {}).items()}
        return CheckpointInfo(entry.step, entry.number, int(summary["epoch"]) if ends_epoch else None, metrics)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return CheckpointInfo(entry.step, entry.number)


class CheckpointPruner:
    """Removes the checkpoints that a run keeps no longer.

    Args:
        store: Where they lie.
        retention: Which are kept.
    """

    def __init__(self, store: CheckpointStore, retention: RetentionPolicy) -> None:
        self._store = store
        self._retention = retention
        self._seen: dict[tuple[int, int], CheckpointInfo] = {}
        self._has_warned = False

    def prune(self, step: int) -> None:
        """Removes what is not kept now that the latest checkpoint of `step` is whole; what cannot be removed stays."""
        stored = {(entry.step, entry.number): entry for entry in self._store.stored()}
        self._seen = {key: self._seen.get(key) or info_of(entry) for key, entry in stored.items()}
        newest = max((entry for entry in self._seen.values() if entry.step == step), key=_key, default=None)
        if newest is None:  # something else removed it
            return
        for entry in self._retention.obsolete(list(self._seen.values()), newest):
            self._store.remove(stored[entry.key])
        self._check_metric(newest.metrics)

    def _check_metric(self, metrics: Mapping[str, float]) -> None:
        best = self._retention.best
        if best is None or not metrics or best in metrics or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "checkpoint.best is %s, which the epochs of this run do not have. Expected one of %s. None is kept as the "
            "best.",
            best,
            ", ".join(metrics),
        )


def _key(entry: CheckpointInfo) -> tuple[int, int]:
    return entry.key
