"""The config by which a model is fine-tuned while it is pruned: that of its run, with the pruning as a callback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config import RunConfig
from tfdist.config.load import build_config, read_config
from tfdist.config.yaml_document import Document
from tfdist.errors import UsageError
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
