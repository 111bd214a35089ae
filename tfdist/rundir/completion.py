"""Completion of a config's run: the note that its epochs are trained and its model is saved."""

from __future__ import annotations

from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import read_json


def completed_epochs(run: RunDir) -> int:
    """The epochs of a run that has trained all that it was to train, and saved its model; 0 for any other."""
    try:
        epochs = read_json(run.done_file)["epochs"]
        is_complete = isinstance(epochs, int) and run.model_file.exists()
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return max(0, epochs) if is_complete else 0


def note_completion(run: RunDir, epochs: int) -> None:
    """Notes that a run has trained so many epochs and saved its model. Raises `RunDirError` when it cannot."""
    write_json(run.done_file, {"epochs": epochs})


def completion_text(name: str, epochs: int, run: RunDir | None) -> str:
    """What a run says that has nothing left to train.

    Args:
        name: The run's name.
        epochs: How many it has trained.
        run: Its directory, with the model; None on a host that does not have it.
    """
    model = "" if run is None else f" model {run.model_file}"
    return f"{name}: was done before, {epochs} epochs; nothing to train (for more: --set fit.epochs=N).{model}"
