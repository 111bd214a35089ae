"""Export of a checkpoint to a file that Keras opens without tfdist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfdist.checkpoint.checkpoint_contents import weights_fault
from tfdist.checkpoint.checkpoint_files import WEIGHTS, StoredPath
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry, damages
from tfdist.checkpoint.shards.joined_file import has_sharded_weights, opened_weights
from tfdist.errors import DataError, UsageError
from tfdist.rundir import atomic_files
from tfdist.rundir.layout import RunDir
from tfdist.rundir.temp_names import temporary_folder

_WEIGHTS_SUFFIX = ".weights.h5"
_MODEL_SUFFIX = ".keras"
_BLOCK_BYTES = 1 << 20


def export(run: RunDir, entry: CheckpointEntry, target: Path, *, load_model: Callable[[RunDir, Any], Any]) -> None:
    """Writes `target`, whole or not at all.

    `*.weights.h5` is a copy of the weights and the optimizer's state, for `load_weights` of the same model. `*.keras`
    is the model itself, compiled, for `keras.models.load_model`; it is built from the run's config, which takes
    TensorFlow.

    Args:
        run: The run.
        entry: Its checkpoint.
        target: The file to make.
        load_model: Builds the run's model and loads a file of weights into it, a path or an open file as Keras takes
            it; called for `*.keras` alone.

    Raises:
        UsageError: The target exists, has another ending, or the run's model cannot be built here.
        DataError: The checkpoint is damaged or cannot be read.
        RunDirError: The target cannot be written.
    """
    is_model = target.name.endswith(_MODEL_SUFFIX)
    if not is_model and not target.name.endswith(_WEIGHTS_SUFFIX):
        raise UsageError(
            f"The ending of DEST says what to write. Expected a file *{_WEIGHTS_SUFFIX} for the weights, or "
            f"*{_MODEL_SUFFIX} for the whole model of a run from a config. Received: {target}"
        )
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already, and is never replaced. Choose another DEST, or remove it first.")
    # A model takes seconds to build: this is said before.
    atomic_files.check_folder(target, named_by="DEST")
    damaged = damages(entry) or [fault for fault in [weights_fault(entry.stored)] if fault]
    if damaged:
        raise DataError(
            f"The checkpoint {entry.stored.path} is damaged: {'; '.join(damaged)}. Choose another with --step."
        )
    # Before the file is made, so that an error of the model's code is not taken for one of the file.
    model = _model(run, entry, load_model) if is_model else None
    with atomic_files.replacing(target, named_by="DEST") as temporary:
        if model is not None:
            model.save(temporary)
        else:
            with temporary.open("wb") as file:
                file.writelines(_blocks(entry.stored.path))


def _model(run: RunDir, entry: CheckpointEntry, load_model: Callable[[RunDir, Any], Any]) -> Any:
    """The run's model with the weights of a checkpoint, which are copied here where they lie in a bucket."""
    source = entry.stored.path
    if isinstance(source, Path):
        if not has_sharded_weights(source):
            return load_model(run, source / WEIGHTS)
        with opened_weights(source) as file:
            return load_model(run, file)
    with temporary_folder("weights") as folder:
        copy = folder / WEIGHTS
        with copy.open("wb") as file:
            file.writelines(_blocks(source))
        return load_model(run, copy)


def _blocks(source: StoredPath) -> Iterator[bytes]:
    """The bytes of a checkpoint's weights; an error of reading names it, and not the file that is written."""
    try:
        with opened_weights(source) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except (OSError, ValueError) as error:
        place, reason = source / WEIGHTS, getattr(error, "strerror", None) or error
        raise DataError(f"{place} cannot be read: {reason}. Choose another checkpoint with --step.") from error
