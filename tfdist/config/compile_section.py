"""The `compile` section of a config: the arguments of `Model.compile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Literal

from tfdist.config.field_errors import FieldError, shown
from tfdist.config.keras_object import Losses, Metrics, Optimizer, check_optimizer
from tfdist.config.section import Section
from tfdist.config.type_rules import PositiveInt

_IN_OPTIMIZER = "write it into the optimizer: {name: adam, %s: ...}"


@dataclass(frozen=True, kw_only=True)
class CompileConfig(Section):
    """The arguments of `Model.compile`.

    Attributes:
        optimizer: Its name, or a mapping with `name` and its arguments, such as `clipnorm`, `weight_decay`,
            `gradient_accumulation_steps` or a schedule as its `learning_rate`; or what a dotted path makes,
            `{build: PATH, args: {...}}`.
        loss: Likewise; for a model of several outputs a list, or a mapping of output name to loss.
        metrics: Likewise; for several outputs a mapping of output name to its metrics.
        weighted_metrics: Metrics that count each sample by its weight, of `fit.class_weight` or of the data.
        loss_weights: One for each loss, as a list or by output name.
        jit_compile: Whether XLA compiles the step; `auto` as Keras chooses on one device: on GPUs where all layers
            support it, on CPUs not. `--jit` of the command line comes before it.
        steps_per_execution: Steps that run before callbacks are called. Where no callback looks at batches, several run
            at once anyway.
    """

    ELSEWHERE: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "learning_rate": _IN_OPTIMIZER % "learning_rate",
            "clipnorm": _IN_OPTIMIZER % "clipnorm",
            "clipvalue": _IN_OPTIMIZER % "clipvalue",
            "global_clipnorm": _IN_OPTIMIZER % "global_clipnorm",
            "weight_decay": _IN_OPTIMIZER % "weight_decay",
            "gradient_accumulation_steps": _IN_OPTIMIZER % "gradient_accumulation_steps",
            "use_ema": _IN_OPTIMIZER % "use_ema",
            "callbacks": "write fit.callbacks",
            "class_weight": "write fit.class_weight",
            "run_eagerly": "a run from a config is compiled; debug in a script with model.compile(run_eagerly=True)",
            "auto_scale_loss": "losses are scaled with precision: mixed_float16, and with no other",
        }
    )

    optimizer: Optimizer
    loss: Losses
    metrics: Metrics = field(default_factory=list)
    weighted_metrics: Metrics = field(default_factory=list)
    loss_weights: Sequence[float] | Mapping[str, float] | None = None
    jit_compile: bool | Literal["auto"] = "auto"
    steps_per_execution: PositiveInt = 1

    def check(self) -> None:
        try:
            check_optimizer(self.optimizer)
        except FieldError as error:
            raise error.within("optimizer") from None
        weights = self.loss_weights
        if isinstance(weights, Mapping) and isinstance(self.loss, list | tuple):
            raise FieldError("loss_weights", f"expected a list, as loss is one. Received: {shown(weights)}")
