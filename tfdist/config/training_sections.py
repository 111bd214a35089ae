"""The sections `compile`, `fit`, `fit.distill` and `checkpoint` of a config: how it is trained, what is kept."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from tfdist.config.field_errors import FieldError, shown
from tfdist.config.keras_object import FORMS, KerasObject, Losses, Metrics, Optimizer, check_optimizer
from tfdist.config.section import DottedPath, PositiveInt, Rule, Section, Text, matches
from tfdist.url_schemes import fault_of

_IN_OPTIMIZER = "write it into the optimizer: {name: adam, %s: ...}"
_TEACHER = (
    "a run directory, a file MODEL.keras, {build: my.module.teacher, args: {...}}, {name: REGISTERED} with its "
    "arguments beside the name, or {outputs: DIR} of `tfdist data predict`"
)
_KINDS = ("build", "name", "outputs")
_SCHEMA = {
    "oneOf": [
        {
            "required": ["build"],
            "properties": {
                "build": {"type": "string", "pattern": typing.get_args(DottedPath)[1].schema["pattern"]},
                "args": {"type": "object"},
            },
            "additionalProperties": False,
        },
        {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
        {
            "required": ["outputs"],
            "properties": {"outputs": {"type": "string", "minLength": 1}},
            "additionalProperties": False,
        },
    ]
}
_SHUFFLE = "the order of the samples is theirs: write data.train.shuffle"
_VALIDATION = "samples to validate on are their own: write data.validation"
Direction = Literal["min", "max"]
_LESS = {"loss", "error", "mse", "mae", "mape", "msle", "rmse", "divergence", "perplexity", "hinge", "crossentropy"}
_MORE = {
    *("acc", "accuracy", "auc", "precision", "recall", "score", "f1", "fbeta", "iou", "similarity", "correlation"),
    *("specificity", "sensitivity", "r2"),
}


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


def _is_teacher(value: Mapping[str, Any]) -> bool:
    kinds = [kind for kind in _KINDS if kind in value]
    if kinds == ["build"]:
        arguments = value.get("args", {})
        return value.keys() <= {"build", "args"} and matches(value["build"], DottedPath) and _is_mapping(arguments)
    return (kinds == ["name"] and matches(value["name"], Text)) or (
        kinds == ["outputs"] and len(value) == 1 and matches(value["outputs"], Text)
    )


def _is_mapping(value: Any) -> bool:
    return matches(value, Mapping[str, Any])


Teacher = Annotated[Text | Annotated[Mapping[str, Any], Rule("", _is_teacher, _SCHEMA)], Rule(_TEACHER, bool)]
"""The source of a teacher, or of what it has said of the samples."""


@dataclass(frozen=True, kw_only=True)
class DistillConfig(Section):
    """Distillation: the model learns the outputs of a teacher, softened by a temperature, besides the labels.

    Attributes:
        teacher: A run directory, a file MODEL.keras, `{build: my.module.teacher, args: {...}}`, `{name: ...}` of what
            `keras.saving.register_keras_serializable` has registered, or `{outputs: DIR}`: what `tfdist data predict`
            has kept of a teacher.
        checkpoint: Of a run directory: `best`, `latest`, a checkpoint's name or its step; null for its trained model.
        temperature: By which the logits of both are divided.
        alpha: How much the teacher counts: the loss is `(1 - alpha)` of `compile.loss` and `alpha` of the divergence
            from the teacher, times `temperature` squared.
        teacher_gives: Whether the teacher's outputs are `logits` or `probabilities`; `auto` looks at its last layers.
    """

    teacher: Teacher
    checkpoint: Text | None = None
    temperature: Annotated[float, Rule("a number above 0", lambda value: value > 0, {"exclusiveMinimum": 0})] = 2.0
    alpha: Annotated[
        float, Rule("a number from 0 to 1", lambda value: 0 <= value <= 1, {"minimum": 0, "maximum": 1})
    ] = 0.5
    teacher_gives: Literal["auto", "logits", "probabilities"] = "auto"

    def check(self) -> None:
        if self.checkpoint is not None and not isinstance(self.teacher, str):
            raise FieldError(
                "checkpoint", f"expected it beside a run directory as teacher. Received: {shown(self.checkpoint)}"
            )

    @property
    def outputs(self) -> str | None:
        """The folder of the teacher's kept outputs; None where the teacher itself computes them."""
        folder: str | None = None if isinstance(self.teacher, str) else self.teacher.get("outputs")
        return folder


def _are_weights(weights: Mapping[int, float]) -> bool:
    return len(weights) > 0 and all(label >= 0 and weight >= 0 for label, weight in weights.items())


def _are_different(epochs: Sequence[int]) -> bool:
    return len(set(epochs)) == len(epochs) > 0


@dataclass(frozen=True, kw_only=True)
class FitConfig(Section):
    """The arguments of `Model.fit`.

    Attributes:
        epochs: How many epochs are trained.
        steps_per_epoch: How many batches make an epoch, which begins where the last one ended: validation, checkpoints
            and callbacks come after so many. Every sample is used once before any comes again. Every sample once where
            it is left out.
        validation_freq: Every how many epochs is validated, or a list of these epochs, counted from 1.
        class_weight: How much the samples of a class count in the loss, by the class's number; 1 for those not named.
        callbacks: Keras's by name, `early_stopping` or `{name: early_stopping, patience: 3}`, and your own,
            `{build: my.module.Callback, args: {...}}`; called in this order.
        distill: A teacher whose outputs the model learns besides the labels; null for none.
    """

    ELSEWHERE: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "shuffle": _SHUFFLE,
            "validation_split": _VALIDATION,
            "validation_data": _VALIDATION,
            "validation_steps": "every sample of data.validation is used: name fewer files there",
            "validation_batch_size": "validation takes the batches of the training: write data.batch_size",
            "x": "write data.train",
            "y": "write data.train",
            "sample_weight": "weights come with the samples: data.train.parse may return (x, y, weight)",
            "initial_epoch": "a run continues where it was: tfdist train --resume auto",
            "verbose": "write tfdist train --progress none, or --quiet",
        }
    )

    epochs: PositiveInt = 1
    steps_per_epoch: PositiveInt | None = None
    validation_freq: (
        PositiveInt
        | Annotated[
            Sequence[PositiveInt],
            Rule("a list of different epochs, counted from 1", _are_different, {"minItems": 1, "uniqueItems": True}),
        ]
    ) = 1
    class_weight: (
        Annotated[
            Mapping[int, float],
            Rule(
                "a mapping of class numbers to weights of 0 or more, such as {0: 1.0, 1: 5.0}",
                _are_weights,
                {"minProperties": 1, "patternProperties": {"^[0-9]+$": {"type": "number", "minimum": 0}}},
            ),
        ]
        | None
    ) = None
    callbacks: Annotated[Sequence[KerasObject], Rule(f"a list of callbacks, each {FORMS}", lambda value: True)] = field(
        default_factory=list
    )
    distill: DistillConfig | None = None

    def validates_after(self, epoch: int) -> bool:
        """Returns whether there is a validation at the end of an epoch, counted from 0, where there is data for it."""
        if isinstance(self.validation_freq, int):
            return (epoch + 1) % self.validation_freq == 0
        return epoch + 1 in self.validation_freq


def direction(metric: str) -> Direction | None:
    """`max` if the largest value is the best, `min` if the smallest is; None if the name does not tell.

    Args:
        metric: As in the history: `val_loss`, `accuracy`, `head_mean_absolute_error`.
    """
    words = re.split(r"[_\W]+", metric.lower().replace("io_u", "iou"))
    # A name that ends in loss is a loss, whatever its output is called.
    if words[-1] == "loss" or _LESS & set(words) and not _MORE & set(words):
        return "min"
    return "max" if _MORE & set(words) and not _LESS & set(words) else None


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Section):
    """The times at which a run saves checkpoints, besides the end of every epoch, and the rules for which are kept.

    Attributes:
        every_steps: Save after each multiple of this many steps of the run; null for never.
        every_minutes: Save when the last checkpoint is this many minutes old; null for never.
        keep: How many of the latest checkpoints are kept.
        best: A metric, as in the history; the checkpoint at the end of its best epoch is kept as well. Null for none.
        best_mode: Whether the smallest (min) or the largest (max) value of `best` is the best; auto tells by its name.
        keep_every_steps: Checkpoints after each multiple of this many steps are kept for good; null for none.
        keep_every_epochs: Checkpoints at the end of every this many epochs are kept for good; null for none.
        when_busy: Whether training waits (wait) or passes over a checkpoint within an epoch (skip) while the one before
            is still being written.
        directory: Where checkpoints are written instead of into the run directory: a path on the chief's host,
            s3://bucket/run (with the extra s3) or gs://bucket/run. Of one run only.
    """

    every_steps: PositiveInt | None = 100
    every_minutes: (
        Annotated[float, Rule("a positive number", lambda value: value > 0, {"exclusiveMinimum": 0})] | None
    ) = None
    keep: PositiveInt = 3
    best: Text | None = None
    best_mode: Literal["auto", "min", "max"] = "auto"
    keep_every_steps: PositiveInt | None = None
    keep_every_epochs: PositiveInt | None = None
    when_busy: Literal["wait", "skip"] = "wait"
    directory: Text | None = None

    @property
    def best_direction(self) -> Direction:
        """True if the best value of `best` is the smallest or the largest; `min` without `best`."""
        if self.best_mode != "auto":
            return self.best_mode
        return (self.best and direction(self.best)) or "min"

    def check(self) -> None:
        fault = None if self.directory is None else fault_of(self.directory)
        if fault is not None:
            raise FieldError("directory", fault)
        if self.best_mode != "auto" and self.best is None:
            raise FieldError("best_mode", f"expected the key best beside it. Received: {shown(self.best_mode)} alone")
        if self.best is not None and self.best_mode == "auto" and direction(self.best) is None:
            problem = f"expected min or max, as the name does not tell whether more of {shown(self.best)} is better"
            raise FieldError("best_mode", f'{problem}. Received: "auto"')
        every, kept = self.every_steps, self.keep_every_steps
        if kept is not None and (every is None or kept % every):
            problem = f"expected a multiple of every_steps, which is {shown(every)}, so that there are such checkpoints"
            raise FieldError("keep_every_steps", f"{problem}. Received: {kept}")
