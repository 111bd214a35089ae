"""The `fit` section of a config: the arguments of `Model.fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar

from tfdist.config.distill_section import DistillConfig
from tfdist.config.keras_object import FORMS, KerasObject
from tfdist.config.section import Section
from tfdist.config.type_rules import PositiveInt, Rule

_SHUFFLE = "the order of the samples is theirs: write data.train.shuffle"
_VALIDATION = "samples to validate on are their own: write data.validation"


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
