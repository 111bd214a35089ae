"""Trainings that compute activations again: `python -m tests.exactness.recomputed_cases OUT SAMPLES [CASE ...]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tests.exactness.__main__ import write_outcomes
from tests.exactness.precision_cases import FLOAT16
from tests.exactness.recomputed_models import blocks, masked
from tests.exactness.table import FLOAT64, ONLY_TRAINED, Case, Make, Precision, fitted, numbers, outcome_of, tokens

CASES: dict[str, Case] = {}


def case(precision: Precision = FLOAT64) -> Callable[[Make], Make]:
    """Registers a function as the case of its name."""

    def register(make: Make) -> Make:
        CASES[make.__name__] = Case(make.__name__, make.__name__, make, precision)
        return make

    return register


@case()
def full(samples: int) -> dict[str, Any]:
    return fitted(blocks("full"), *numbers(samples))


@case()
def larger_than(samples: int) -> dict[str, Any]:
    return fitted(blocks("larger_than"), *numbers(samples)) | ONLY_TRAINED


@case()
def list_of_layers(samples: int) -> dict[str, Any]:
    return fitted(blocks("list_of_layers"), *numbers(samples)) | ONLY_TRAINED


@case()
def activations(samples: int) -> dict[str, Any]:
    return fitted(blocks("activations"), *numbers(samples)) | ONLY_TRAINED


@case()
def masks_attention_and_recurrence(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(masked("full"), ids, ids[:, 0] % 3) | ONLY_TRAINED


@case()
def run_eagerly(samples: int) -> dict[str, Any]:
    return fitted(blocks("full"), *numbers(samples), {"run_eagerly": True}) | ONLY_TRAINED


@case()
def xla(samples: int) -> dict[str, Any]:
    settings = {"jit_compile": True, "steps_per_execution": 2}
    return fitted(blocks("full"), *numbers(samples), settings) | ONLY_TRAINED


@case(FLOAT16)
def mixed_float16(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5, gradient_accumulation_steps=2)
    return fitted(masked("full"), ids, ids[:, 0] % 3, {"optimizer": optimizer}) | ONLY_TRAINED


class OwnStep(keras.Model):
    """Trains by a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = masked("full")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.inner(x, training=training)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            scaled = self.optimizer.scale_loss(loss)
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        return {"loss": loss}


@case()
def own_step(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(OwnStep(), ids, ids[:, 0] % 3) | ONLY_TRAINED


if __name__ == "__main__":
    write_outcomes(sys.argv[1], sys.argv[3:] or tuple(CASES), lambda name: outcome_of(CASES[name], int(sys.argv[2])))
