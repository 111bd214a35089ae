"""Completion of a config's run: the note that its epochs are trained and its model is saved."""

from __future__ import annotations

from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import read_json
from tfdist.text import format_count


def completed_epochs(run: RunDir) -> int:
    """The epochs of a run that has trained all that it was to train, and saved its model; 0 for any other."""
    return _noted(run, "epochs") if run.model_file.exists() else 0


def note_completion(run: RunDir, epochs: int, trained: int | None = None) -> None:
    """Notes that a run is done and has saved its model.

    Args:
        run: Its directory.
        epochs: How many it was to train.
        trained: How many it has, if not as many: fewer where a callback has stopped it, more where it was resumed to
            train less than it already had.

    Raises:
        RunDirError: It cannot be written.
    """
    trained = epochs if trained is None else trained
    write_json(run.done_file, {"epochs": max(epochs, trained), "trained": trained})


def trained_text(epochs: int, trained: int, size: str) -> str:
    """Returns what a run says that has ended: how much it has trained.

    Args:
        epochs: How many it was to train.
        trained: How many it has; see `note_completion`.
        size: What an epoch has, such as `1,437 samples`.
    """
    asked, of = format_count(epochs, "epoch"), f"of {size}"
    if trained < epochs:
        return f"stopped by a callback after {trained} of {asked} {of}"
    if trained > epochs:
        return f"{format_count(trained, 'epoch')} {of}; nothing was left to train (fit.epochs: {epochs})"
    return f"{asked} {of}"


def completion_text(name: str, epochs: int, run: RunDir | None) -> str:
    """Returns what a run says that has nothing left to train.

    Args:
        name: The run's name.
        epochs: How many it was to train.
        run: Its directory, with the model; None on a host that does not have it.
    """
    model = "" if run is None else f" model {run.model_file}"
    trained = epochs if run is None else _noted(run, "trained") or epochs
    if trained < epochs:
        return f"{name}: was done before; a callback had stopped it after {trained} of {epochs} epochs.{model}"
    return f"{name}: was done before, {epochs} epochs; nothing to train (for more: --set fit.epochs=N).{model}"


def _noted(run: RunDir, name: str) -> int:
    try:
        epochs = read_json(run.done_file)[name]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return max(0, epochs) if isinstance(epochs, int) else 0
