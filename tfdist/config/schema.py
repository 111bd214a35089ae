"""Schema of a config: the sections of a run, from its model to its precision.

A dotted path in a config is imported and called, so a config runs code as a script does: run only configs you trust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tfdist.config.checkpoint_section import CheckpointConfig
from tfdist.config.data_sections import SourceConfig
from tfdist.config.field_errors import FieldError, shown
from tfdist.config.keras_object import KerasObject, Losses, Metrics, check_optimizer
from tfdist.config.section import Section
from tfdist.config.type_rules import DottedPath, PositiveInt, Rule

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """How the model is made.

    Attributes:
        build: Dotted path of a function that returns a Keras model.
        args: Its keyword arguments.
    """

    build: DottedPath
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompileConfig(Section):
    """The arguments of `Model.compile`.

    Attributes:
        optimizer: Its name, or a mapping with `name` and its arguments; or what a dotted path makes,
            `{build: PATH, args: {...}}`.
        loss: Likewise; for a model of several outputs a list, or a mapping of output name to loss.
        metrics: Likewise; for several outputs a mapping of output name to its metrics.
        loss_weights: One for each loss, as a list or by output name.
    """

    optimizer: KerasObject
    loss: Losses
    metrics: Metrics = ()
    loss_weights: Sequence[float] | Mapping[str, float] | None = None

    def check(self) -> None:
        try:
            check_optimizer(self.optimizer)
        except FieldError as error:
            raise error.within("optimizer") from None


@dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """The samples to train and to validate on.

    Attributes:
        batch_size: Samples of one step over all replicas (the global batch).
        train: The samples to train on.
        validation: The samples to validate on after every epoch; null for none.
    """

    batch_size: PositiveInt
    train: SourceConfig
    validation: SourceConfig | None = None


@dataclass(frozen=True, kw_only=True)
class FitConfig(Section):
    """The arguments of `Model.fit`.

    Attributes:
        epochs: How often every sample is used.
    """

    epochs: PositiveInt = 1


@dataclass(frozen=True, kw_only=True)
class DevicesConfig(Section):
    """How a worker uses its devices.

    Attributes:
        logical: How many logical devices each GPU is split into, or the CPU when there is none; null for no split.
        memory_limit: MiB of GPU memory for each logical device; null for no limit.
        memory_growth: Whether GPU memory is allocated as it is needed rather than all at once.
    """

    logical: PositiveInt | None = None
    memory_limit: PositiveInt | None = None
    memory_growth: bool = True


@dataclass(frozen=True, kw_only=True)
class RunConfig(Section):
    """One run.

    Attributes:
        name: Names the run directory.
        seed: Of the weights, the order of the samples and everything else that is random; null chooses one, which is
            written into the run directory.
        model: How the model is made.
        compile: How it is compiled.
        data: The samples to train on.
        fit: How long to train.
        devices: How a worker uses its devices.
        precision: The Keras dtype policy.
        batch_norm: Whose statistics BatchNormalization takes while it trains: those of the global batch, as on one
            device, or each replica its own.
        gather: Whether losses and layers that take a sample by the others of its batch are called with the samples of
            all replicas, as on one device, where nothing says so.
        checkpoint: When checkpoints are saved, and which are kept.
    """

    name: Annotated[str, Rule("a name of letters, digits, dots, dashes and underscores", _NAME.fullmatch)]
    seed: Annotated[int, Rule("an integer from 0 to 4294967295", lambda value: 0 <= value < 2**32)] | None = None
    model: ModelConfig
    compile: CompileConfig
    data: DataConfig
    fit: FitConfig = field(default_factory=FitConfig)
    devices: DevicesConfig = field(default_factory=DevicesConfig)
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    batch_norm: Literal["synchronized", "replica"] = "synchronized"
    gather: bool = True
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def check(self) -> None:
        best = self.checkpoint.best
        if best is not None and best.startswith("val_") and self.data.validation is None:
            problem = "expected a metric of the training, as there is no data.validation"
            raise FieldError("checkpoint.best", f"{problem}. Received: {shown(best)}")
