"""The run that fine-tunes a model while it is pruned: its config, and its directory beside the file to make."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.cluster.membership import Membership
from tfdist.config import RunConfig
from tfdist.config.load import build_config, read_config, shared_settings
from tfdist.config.yaml_document import Document
from tfdist.data.files.missing_files import check_files
from tfdist.errors import RunDirError, UsageError
from tfdist.launch.job import run_job
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir import RunDir, atomic_files
from tfdist.rundir.run_dir_creation import create_run_dir
from tfdist.training.pruning.sparsity import Structure

_LEFT_OUT = ("earlystopping", "pruning")
"""Callbacks of the run that do not take part: one would end it before all is pruned, another prunes otherwise."""


@dataclass(frozen=True)
class PruningChoice:
    """The choice of how a model is pruned.

    Attributes:
        structure: What is pruned together, as `Structure.of` reads it.
        sparsity: The share that is pruned in the end; None for that of a pattern.
        epochs: How many epochs it is fine-tuned; None for as many as its config says.
        layers: Names of the layers to prune; empty for all that can be.
        skip: Names of layers to leave as they are.

    Raises:
        UsageError: There is no such structure, or the sparsity does not fit it.
    """

    structure: str
    sparsity: float | None = None
    epochs: int | None = None
    layers: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Structure.of(self.structure).sparsity(self.sparsity)

    @property
    def callback(self) -> Mapping[str, Any]:
        """The pruning as a config has it."""
        given = {"sparsity": self.sparsity, "layers": list(self.layers), "skip": list(self.skip)}
        return {"name": "pruning", "structure": self.structure, **{key: value for key, value in given.items() if value}}


def with_config(
    model: ModelChoice, config: str | None, overrides: Sequence[str] = (), modules: Sequence[str] = ()
) -> ModelChoice:
    """The model with the config by which it is trained.

    Args:
        model: The model.
        config: For a `.keras` file the config whose data it is fine-tuned on; None for a run's own.
        overrides: `KEY=VALUE` for that config.
        modules: What registers the layers of a `.keras` file.

    Raises:
        UsageError: A `.keras` file comes without a config, or a run with another one.
        ConfigError: The config is wrong.
    """
    if model.config is not None:
        if config is not None:
            raise UsageError(
                f"--config is for a MODEL.keras, and a run has its own. Expected one of both. Received: --config "
                f"{config}. Change entries of the run's config with --set."
            )
        return model
    if config is None:
        raise UsageError(
            "A .keras file does not say on which data it is fine-tuned. Expected --config CONFIG.yaml, whose data, "
            f"compile and fit are taken. Received: {model.shown} alone"
        )
    args: dict[str, Any] = {"file": model.file, **({"modules": list(modules)} if modules else {})}
    document = read_config(config, overrides)
    content = {**document.content, "model": {"build": "tfdist.models.from_file", "args": args}}
    document = Document(document.path, content, document.lines, document.overrides)
    return replace(model, is_whole=False, config=build_config(document), document=document)


def fine_tuning_config(config: RunConfig, weights: str, asked: PruningChoice) -> RunConfig:
    """Returns what is trained.

    Args:
        config: That of the model's run.
        weights: The file of weights to begin with.
        asked: How it is pruned.
    """
    kept = [entry for entry in config.fit.callbacks if _name(entry) not in _LEFT_OUT]
    fit = replace(config.fit, epochs=asked.epochs or config.fit.epochs, callbacks=[*kept, asked.callback])
    return replace(
        config,
        name=f"{config.name}-pruned",
        model=replace(config.model, weights=weights),
        fit=fit,
        # The checkpoints of the model's own run stay as they are.
        checkpoint=replace(config.checkpoint, directory=None),
    )


def _name(callback: str | Mapping[str, Any]) -> str:
    name = callback if isinstance(callback, str) else callback.get("name", "")
    return name.replace("_", "").lower()


_OF_THE_MACHINE = ("seed", "kernels")
"""Settings that a run which draws them, or finds them out, writes into its config."""


def run_dir_of(output: Path) -> RunDir:
    """The directory of the run that leads to a file."""
    return RunDir(output.with_suffix(".run"))


def report_file(run: RunDir) -> Path:
    """Returns what came of it; there once the file is made (JSON)."""
    return run.path / "pruning.json"


def prepare(run: RunDir, config: RunConfig, *, overwrite: bool) -> None:
    """Sees to it that what is in the run directory is a part of this fine-tuning. On the chief's machine.

    What an earlier start of the same has done stays. Where that has led to a file, `overwrite` begins anew.

    Args:
        run: The directory, which need not exist.
        config: What is to be trained.
        overwrite: Whether another run in it is replaced.

    Raises:
        RunDirError: There is another run, or a job is still writing into it.
    """
    if not run.run_file.is_file():
        return
    others = differing(run, config)
    if not others and not (overwrite and report_file(run).exists()):
        return
    if not overwrite:
        raise RunDirError(
            f"The run directory {run} has another pruning: {', '.join(others)} differ. Expected the one that was "
            "begun, which the same command goes on with. Replace it with --overwrite, or choose another --output."
        )
    with RunLock() as lock:
        lock.take(run)
        report_file(run).unlink(missing_ok=True)
        create_run_dir(run.path, name=config.name, overwrite=True)


def differing(run: RunDir, config: RunConfig) -> list[str]:
    """The dotted keys in which a run's config is another one; empty where it has none yet."""
    if not run.config_file.exists():
        return []
    mine, before = _settings(config), _settings(build_config(read_config(run.config_file)))
    return sorted(key for key in mine.keys() | before.keys() if mine.get(key) != before.get(key))


def fine_tune(
    run: RunDir,
    config: RunConfig,
    document: Document | None,
    membership: Membership,
    *,
    target: str,
    is_silent: bool = False,
    **options: Any,
) -> int:
    """Trains on the workers of this machine, from where an earlier start was stopped; returns the exit code.

    Args:
        run: Its directory, as `prepare` leaves it.
        config: What is trained.
        document: The file of the run's config; None without one.
        membership: The workers.
        target: The model, for the record.
        is_silent: Whether stdout is for something else.
        **options: What else `JobSpec` takes.

    Raises:
        TfdistError: The job could not be started.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if is_silent:
        given |= {"quiet": True, "show": "none"}
    if document is not None:
        given["preflight"] = functools.partial(check_files, config, document)
    given.setdefault("progress", "auto")
    spec = JobSpec.for_config(
        config, target=target, document=document, membership=membership, run_dir=str(run.path), resume="auto", **given
    )
    return run_job(spec)


def keep_report(run: RunDir, result: Mapping[str, Any]) -> None:
    """Notes that the file is made, and what came of it."""
    atomic_files.write_text(report_file(run), json.dumps(result, indent=2) + "\n")


def _settings(config: RunConfig) -> dict[str, Any]:
    settings = {**shared_settings(config), "model.weights": config.model.weights}
    return {key: value for key, value in settings.items() if key not in _OF_THE_MACHINE}
