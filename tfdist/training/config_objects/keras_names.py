"""Names of Keras's classes in a config: `EarlyStopping`, `early_stopping` and `earlystopping` are one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import keras

from tfdist.config.field_errors import FieldError, nearest
from tfdist.training.pruning.pruning_callback import Pruning
from tfdist.training.quantization_aware.quantization_aware_callback import QuantizationAware

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHORT = {
    "acc": "accuracy",
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
}
"""Names that Keras has for some losses and metrics besides."""


def snake_case(name: str) -> str:
    """`early_stopping` for `EarlyStopping`."""
    return _WORDS.sub("_", name.replace("IoU", "Iou").replace("NaN", "Nan")).lower()


@dataclass(frozen=True)
class KerasKind:
    """One kind of object.

    Attributes:
        word: What it is, for errors: `optimizer`.
        module: Where Keras has its classes.
        base: What all of them are.
        left_out: Classes that no config can make use of.
        shown: How the name of a class is written in a config.
        own: Classes of tfdist beside them.
    """

    word: str
    module: ModuleType
    base: type
    left_out: tuple[str, ...] = ()
    shown: Callable[[str], str] = snake_case
    own: tuple[type, ...] = ()

    @cached_property
    def classes(self) -> Mapping[str, type]:
        """Every name that a class goes by -> the class."""
        found: dict[str, type] = {}
        for name, value in (*vars(self.module).items(), *((kind.__name__, kind) for kind in self.own)):
            is_one = isinstance(value, type) and issubclass(value, self.base) and value is not self.base
            if is_one and name not in self.left_out:
                found |= dict.fromkeys((name, snake_case(name), name.lower(), _WORDS.sub("_", name).lower()), value)
        return found | {short: found[name] for short, name in _SHORT.items() if name in found}

    def find(self, name: str, key: str) -> type:
        """The class that a config's `key` names.

        Raises:
            FieldError: There is none.
        """
        found = self.classes.get(name) or self.classes.get(name.lower())
        if found is None:
            raise self.unknown(name, key)
        return found

    def unknown(self, name: str, key: str) -> FieldError:
        """The error for a name that Keras does not have."""
        names = sorted({self.shown(value.__name__) for value in self.classes.values()})
        near = nearest(name, [*names, *_SHORT])
        hint = f"did you mean {near}? Expected Keras's name of one" if near else f"expected one of {', '.join(names)}"
        return FieldError(
            key, f"Keras has no {self.word} {name}; {hint}, or {{build: my.module.Class}}. Received: {name}"
        )


OPTIMIZER = KerasKind(
    "optimizer", keras.optimizers, keras.optimizers.Optimizer, ("LossScaleOptimizer", "MultiOptimizer"), str.lower
)
LOSS = KerasKind("loss", keras.losses, keras.losses.Loss)
METRIC = KerasKind("metric", keras.metrics, keras.metrics.Metric)
SCHEDULE = KerasKind(
    "learning rate schedule", keras.optimizers.schedules, keras.optimizers.schedules.LearningRateSchedule
)
CALLBACK = KerasKind(
    "callback", keras.callbacks, keras.callbacks.Callback, ("CallbackList",), own=(Pruning, QuantizationAware)
)
