"""Optimizers, each for a small part of a model."""

from __future__ import annotations

from typing import Any

import keras

from tests.exactness.keras_classes.rows import Row

optimizers = keras.optimizers


def _optimizer(name: str, rate: float, **options: Any) -> Row:
    return Row(f"optimizers.{name}", lambda: getattr(optimizers, name)(rate, **options))


ROWS = (
    _optimizer("Adadelta", 1.0),
    _optimizer("Adafactor", 0.05),
    _optimizer("Adagrad", 0.1),
    _optimizer("Adam", 0.05, amsgrad=True),
    _optimizer("AdamW", 0.05, weight_decay=0.01),
    _optimizer("Adamax", 0.05),
    _optimizer("Ftrl", 0.1, l1_regularization_strength=0.001),
    _optimizer("Lamb", 0.05),
    _optimizer("Lion", 0.01),
    _optimizer("Muon", 0.05),
    _optimizer("Nadam", 0.05),
    _optimizer("RMSprop", 0.05, centered=True, momentum=0.5),
    _optimizer("SGD", 0.1, momentum=0.9, nesterov=True),
    _optimizer("ScheduleFreeAdamW", 0.05),
    Row("optimizers.LossScaleOptimizer", lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.1)), is_apart=True),
    Row("optimizers.MultiOptimizer", lambda: optimizers.MultiOptimizer(
        optimizers.OptimizerMap(optimizers.SGD(0.1), {".*head.*": optimizers.Adam(0.05)})), is_apart=True),
    Row("optimizers.OptimizerMap", lambda: optimizers.MultiOptimizer(
        optimizers.OptimizerMap(optimizers.RMSprop(0.01), {".*bias": optimizers.SGD(0.1)})), is_apart=True),
)  # fmt: skip
