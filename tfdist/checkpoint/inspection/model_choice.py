"""The model of an inference: a `.keras` file, or what a run directory has."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.checkpoint.checkpoint_contents import weights_fault
from tfdist.checkpoint.checkpoint_files import WEIGHTS
from tfdist.checkpoint.checkpoint_policies import RetentionPolicy
from tfdist.checkpoint.checkpoint_pruner import info_of
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry, checkpoints_of, chosen, damages
from tfdist.checkpoint.inspection.locations import retention_of
from tfdist.config import RunConfig
from tfdist.config.load import build_config, read_config
from tfdist.config.training_sections import direction
from tfdist.config.yaml_document import Document
from tfdist.errors import ConfigError, DataError, RunDirError, UsageError
from tfdist.rundir import RunDir
from tfdist.rundir.regular_files import open_regular
from tfdist.rundir.run_snapshot import read_run

_EXPECTED = "Expected a run directory with a model, or a model that was saved as MODEL.keras."
_OF_SCRIPT = "What builds the model of {run} is a script, and not written in its config."


@dataclass(frozen=True)
class ModelChoice:
    """A model.

    Attributes:
        file: The `.keras` file, or a checkpoint's file of weights: an absolute path, or a URL.
        is_whole: Whether that file is all that is needed; else `config` builds the model.
        shown: The model in words.
        config: The run's config; None for a file.
        document: The config's file; None for a file.
    """

    file: str
    is_whole: bool
    shown: str
    config: RunConfig | None = None
    document: Document | None = None


def choose_model(
    model: str,
    checkpoint: str | None = None,
    overrides: Sequence[str] = (),
    *,
    is_here: bool = True,
    named_by: str = "--checkpoint",
) -> ModelChoice:
    """Finds the model that a user names.

    Args:
        model: A run directory, or a `.keras` file.
        checkpoint: `best`, `latest`, a checkpoint's name or its step; None for the trained model of a run, or while
            there is none, its latest checkpoint.
        overrides: `KEY=VALUE` for the run's config.
        is_here: Whether the chief is started on this machine, which alone needs the file.
        named_by: The option or the key by which a user chooses the checkpoint, for errors.

    Raises:
        UsageError: There is no such model, or the options do not fit it.
        DataError: The checkpoint is damaged.
    """
    path = Path(model)
    if model.endswith(".keras"):
        _check_file(path, checkpoint, overrides, is_here, named_by)
        return ModelChoice(str(path.absolute()), True, path.name)
    if not path.is_dir():
        raise UsageError(f"There is no model {model}. {_EXPECTED} Received: {model}")
    run = RunDir(path)
    read_run(run)
    document = _run_config(run, overrides)
    if "model" not in document.content:
        return _of_script(run, checkpoint, is_here, named_by)
    config = build_config(document)
    if checkpoint is None and (run.model_file.exists() or not is_here):
        if is_here:
            _check_whole(run.model_file)
        return ModelChoice(str(run.model_file), False, f"{path.name}/{run.model_file.name}", config, document)
    entry, why = _checkpoint(run, checkpoint, named_by)
    shown = f"{path.name}'s checkpoint {entry.name}{why}"
    return ModelChoice(str(entry.stored.path / WEIGHTS), False, shown, config, document)


def _run_config(run: RunDir, overrides: Sequence[str]) -> Document:
    """Returns what a run has written of what it was, a config or a script, with overrides of the config.

    Raises:
        RunDirError: It cannot be read.
        UsageError: There are overrides, and it is a script's.
    """
    try:
        written = read_config(run.config_file)
        if overrides and "model" in written.content:
            return read_config(run.config_file, overrides)
    except ConfigError as error:
        raise RunDirError(f"The config of the run {run} cannot be read: {error}") from error
    if overrides:
        raise UsageError(
            "--set overrides an entry of a run's config, and the run of a script has none. Expected no --set beside "
            f"it. Received: --set {overrides[0]}"
        )
    return written


def _of_script(run: RunDir, checkpoint: str | None, is_here: bool, named_by: str) -> ModelChoice:
    """The model that the last `fit` of a script has left."""
    if checkpoint is not None:
        raise UsageError(
            f"{_OF_SCRIPT.format(run=run)} Its checkpoints have weights alone. Expected no {named_by} beside it: the "
            f"model of its last fit is taken. Received: {named_by} {checkpoint}"
        )
    if is_here and not run.model_file.exists():
        raise UsageError(f"{_OF_SCRIPT.format(run=run)} {_EXPECTED} {_instead_of_model(run)}")
    if is_here:
        _check_whole(run.model_file)
    return ModelChoice(str(run.model_file), True, f"{run.path.name}/{run.model_file.name}")


def _instead_of_model(run: RunDir) -> str:
    if run.weights_file.exists():
        return (
            f"Received: a run with {run.weights_file.name} alone. Load these weights in the script; or give the model "
            "a get_config(), and train again."
        )
    return (
        "Received: a run without a model. Train it without --no-save; or let the script save a model with "
        "model.save('MODEL.keras'), and give that."
    )


def _check_file(
    path: Path, checkpoint: str | None, overrides: Sequence[str], is_here: bool, named_by: str
) -> None:
    if checkpoint is not None:
        raise UsageError(
            f"{named_by} chooses among those of a run, and {path} is one model. Expected a run directory beside it. "
            f"Received: {named_by} {checkpoint}"
        )
    if overrides:
        raise UsageError(
            f"--set overrides an entry of a run's config, and {path} has none. Expected a run directory beside it. "
            f"Received: --set {overrides[0]}"
        )
    if is_here and not path.is_file():
        raise UsageError(f"There is no model {path}. {_EXPECTED} Received: {path}")
    if is_here:
        _check_whole(path)


def _check_whole(path: Path) -> None:
    """Checks every byte of a `.keras` file, which is a zip file with checksums.

    Raises:
        DataError: It is damaged.
    """
    try:
        with open_regular(path, follows_link=True) as opened, zipfile.ZipFile(opened) as file:
            damaged = file.testzip()
    except OSError as error:
        damaged = error.strerror or str(error)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        damaged = str(error)
    if damaged is not None:
        raise DataError(
            f"{path} is damaged: {damaged}. Expected a whole file that model.save(...) has written with the ending "
            ".keras. Save it again, or choose another model."
        )


def _checkpoint(run: RunDir, name: str | None, named_by: str) -> tuple[CheckpointEntry, str]:
    """The checkpoint of a name, and in words why it was chosen."""
    _, held = checkpoints_of(run.path)
    why = ""
    if name is None or name == "latest":
        entry = chosen(held, None)
    elif name == "best":
        entry, why = _best(run, held, named_by)
    else:
        entry = _named(held, name, named_by)
    damaged = damages(entry) or [fault for fault in [weights_fault(entry.stored)] if fault]
    if damaged:
        raise DataError(
            f"The checkpoint {entry.stored.path} is damaged: {'; '.join(damaged)}. Choose another by {named_by}; "
            "`tfdist checkpoints verify` says which are whole."
        )
    return entry, why


def _best(run: RunDir, held: Sequence[CheckpointEntry], named_by: str) -> tuple[CheckpointEntry, str]:
    """The best of the checkpoints that are there: by the config's metric, else by the loss of the validation."""
    policy = retention_of(run)
    infos = {info_of(entry.stored).key: entry for entry in held if entry.fault is None}
    at_ends = [info_of(entry.stored) for entry in infos.values()]
    metrics = [policy.best] if policy.best else ["val_loss", "loss"]
    for metric in metrics:
        larger = policy.larger_is_better if policy.best else direction(metric) == "max"
        best = RetentionPolicy(best=metric, larger_is_better=larger).best_of(at_ends)
        if best is not None:
            return infos[best.key], f" ({metric} {best.metrics[metric]:.4g})"
    raise RunDirError(
        f"None of the {len(held)} checkpoints of {run} was made at the end of an epoch with {' or '.join(metrics)}. "
        f"Expected one that has it. Choose one by its name, or {named_by} latest; `tfdist checkpoints ls` lists them."
    )


def _named(held: Sequence[CheckpointEntry], name: str, named_by: str) -> CheckpointEntry:
    found = next((entry for entry in held if name in (entry.name, str(entry.stored.step))), None)
    if found is None:
        names = ", ".join(entry.name for entry in held)
        raise RunDirError(
            f"There is no checkpoint {name}. Expected best, latest, or one of {names}. Received: {named_by} {name}"
        )
    return found
