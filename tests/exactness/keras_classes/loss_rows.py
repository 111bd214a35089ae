"""Losses."""

from __future__ import annotations

from typing import Any

import keras

from tests.exactness.keras_classes.rows import Row


def _loss(name: str, on: str, **options: Any) -> Row:
    return Row(f"losses.{name}", lambda: getattr(keras.losses, name)(**options), on)


ROWS = (
    _loss("BinaryCrossentropy", "flags", label_smoothing=0.1),
    _loss("BinaryFocalCrossentropy", "flags"),
    _loss("CTC", "transcript"),
    _loss("CategoricalCrossentropy", "one-hot"),
    _loss("CategoricalFocalCrossentropy", "one-hot"),
    _loss("CategoricalGeneralizedCrossEntropy", "classes"),
    _loss("CategoricalHinge", "one-hot"),
    _loss("Circle", "embedding"),
    _loss("CosineSimilarity", "numbers"),
    _loss("Dice", "flags"),
    _loss("Hinge", "signs"),
    _loss("Huber", "numbers"),
    _loss("KLDivergence", "one-hot"),
    _loss("LogCosh", "numbers"),
    _loss("MeanAbsoluteError", "numbers"),
    _loss("MeanAbsolutePercentageError", "positive"),
    _loss("MeanSquaredError", "numbers"),
    _loss("MeanSquaredLogarithmicError", "positive"),
    _loss("Poisson", "positive"),
    _loss("SparseCategoricalCrossentropy", "classes", ignore_class=1),
    _loss("SquaredHinge", "signs"),
    _loss("Tversky", "flags"),
)
