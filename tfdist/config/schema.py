"""Schema of a config: the sections of a run, from its model to its precision.

A dotted path in a config is imported and called, so a config runs code as a script does: run only configs you trust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tfdist.config.data_sections import SourceConfig
from tfdist.config.field_errors import FieldError, shown
from tfdist.config.section import DottedPath, PositiveInt, Rule, Section
from tfdist.config.training_sections import CheckpointConfig, CompileConfig, FitConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WEIGHTS = re.compile(r".+\.(keras|weights\.h5)")

WeightsFile = Annotated[
    str, Rule("a file that ends in .keras or .weights.h5", _WEIGHTS.fullmatch, {"pattern": f"^{_WEIGHTS.pattern}$"})
]

GroupSize = Annotated[int, Rule("an integer of 2 or more", lambda value: value >= 2, {"minimum": 2})]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The way in which the model is made.

    Attributes:
        build: Dotted path of a function that returns a Keras model.
        args: Its keyword arguments.
        weights: The weights that the training begins with, a .keras or a .weights.h5 file of the same model on the
            chief's machine, or a URL; null for those that the function makes. The optimizer begins anew.
    """

    build: DottedPath
    args: Mapping[str, Any] = field(default_factory=dict)
    weights: WeightsFile | None = None


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
class DevicesConfig(Section):
    """A worker's use of its devices.

    Attributes:
        logical: How many logical devices each GPU is split into, or the CPU when there is none; null for no split.
        memory_limit: MiB of GPU memory for each logical device; null for no limit.
        memory_growth: Whether GPU memory is allocated as it is needed rather than all at once.
        share_gpu: Whether workers of one machine share its GPUs where there are fewer of these.
    """

    logical: PositiveInt | None = None
    memory_limit: PositiveInt | None = None
    memory_growth: bool = True
    share_gpu: bool = False


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
        fit: How long to train, with which callbacks.
        devices: How a worker uses its devices.
        precision: The Keras dtype policy.
        batch_norm: Whose statistics BatchNormalization takes while it trains: those of the global batch, as on one
            device, or each replica its own.
        kernels: By which kernels replicas compute on the CPU: TensorFlow's own or oneDNN's, which give the same numbers
            up to rounding; auto takes oneDNN's where the processor gains by them.
        shard: What each of several workers holds a part of, so that larger models fit: the state of the optimizer
            (zero1), the gradients too (zero2), and the weights (zero3).
        shard_over: Which workers share one copy of what shard cuts: all of them, those of each host, or so many that
            follow one another.
        shard_embeddings: The most rows of a keras.layers.Embedding that each of several workers has whole; of larger
            ones each has some rows. All are whole where it is null.
        offload: Where the optimizer's state, or a worker's part of it, is kept and updated instead of on the device: in
            the host's memory (optimizer), or on the disk of the run directory (optimizer:disk).
        tensor: How many workers share each large weight, as a layout says: the model's own, or one that is derived. 1
            for whole weights.
        context: How many workers share each sequence, for those that one device has no room for. 1 for whole sequences.
        gather: Whether losses and layers that take a sample by the others of its batch are called with the samples of
            all replicas, as on one device, where nothing says so.
        checkpoint: When checkpoints are saved, and which are kept.
    """

    name: Annotated[
        str,
        Rule(
            "a name of letters, digits, dots, dashes and underscores",
            _NAME.fullmatch,
            {"pattern": f"^{_NAME.pattern}$"},
        ),
    ]
    seed: (
        Annotated[
            int,
            Rule(
                "an integer from 0 to 4294967295",
                lambda value: 0 <= value < 2**32,
                {"minimum": 0, "maximum": 2**32 - 1},
            ),
        ]
        | None
    ) = None
    model: ModelConfig
    compile: CompileConfig
    data: DataConfig
    fit: FitConfig = field(default_factory=FitConfig)
    devices: DevicesConfig = field(default_factory=DevicesConfig)
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    batch_norm: Literal["synchronized", "replica"] = "synchronized"
    kernels: Literal["auto", "tensorflow", "onednn"] = "auto"
    shard: Literal["none", "zero1", "zero2", "zero3"] = "none"
    shard_over: Literal["all", "host"] | GroupSize = "all"
    shard_embeddings: PositiveInt | None = None
    offload: Literal["none", "optimizer", "optimizer:disk"] = "none"
    tensor: PositiveInt = 1
    context: PositiveInt = 1
    gather: bool = True
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def check(self) -> None:
        best, validates = self.checkpoint.best, self.data.validation is not None
        if best is not None and best.startswith("val_") and not validates:
            problem = "expected a metric of the training, as there is no data.validation"
            raise FieldError("checkpoint.best", f"{problem}. Received: {shown(best)}")
        if self.fit.validation_freq != 1 and not validates:
            problem = "expected data.validation beside it, the samples to validate on"
            raise FieldError("fit.validation_freq", f"{problem}. Received: {shown(self.fit.validation_freq)} alone")
        every, at_once = self.checkpoint.every_steps, self.compile.steps_per_execution
        if every is not None and every % at_once:
            problem = f"expected a multiple of compile.steps_per_execution, {at_once}, or null"
            raise FieldError("checkpoint.every_steps", f"{problem}. Received: {every}")
