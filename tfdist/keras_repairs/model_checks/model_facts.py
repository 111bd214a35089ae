"""Facts of a model that explain why several replicas, XLA or another precision give other numbers than one replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from tfdist.keras_repairs.model_checks.batch_norm_choice import unsynchronized_layers

_STRENGTHS = ("rate", "dropout", "recurrent_dropout", "stddev")
"""Attributes that say how strong a layer's noise is: a layer where all of them are 0 has none."""

_STEPS = ("train_step", "test_step", "compute_loss")


def model_facts(model: keras.Model) -> dict[str, Any]:
    """Facts of a built and compiled model, as JSON.

    Returns:
        unsynchronized: Names of the trainable BatchNormalization layers whose statistics are each replica's own.
        overrides: `"Class.train_step"` and the like that are not Keras's own.
        compute_dtypes: Every dtype that layers compute in, sorted.
        jit_compile: Whether the model is compiled with XLA.
        steps_per_execution: Steps that run at once.
        accumulates: Whether gradients are accumulated over several steps.
        non_trainable: Paths of the weights that the optimizer does not train.
    """
    layers = list(model._flatten_layers())
    optimizer = getattr(model, "optimizer", None)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return {
        "unsynchronized": [layer.name for layer in unsynchronized_layers(model)],
        "overrides": list(_overrides(model)),
        "compute_dtypes": sorted({str(layer.compute_dtype) for layer in layers}),
        "jit_compile": bool(model.jit_compile),
        "steps_per_execution": int(model.steps_per_execution or 1),
        "accumulates": bool(getattr(inner, "gradient_accumulation_steps", None)),
        "non_trainable": [weight.path for weight in model.non_trainable_weights],
    }


def is_random(layer: Any) -> bool:
    """Returns whether a layer draws random numbers while it trains."""
    if not any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values()):
        return False
    strengths = [getattr(layer, name) for name in _STRENGTHS if isinstance(getattr(layer, name, None), int | float)]
    return any(strengths) or not strengths


def _overrides(model: Any) -> Iterator[str]:
    for name in _STEPS:
        owner = next(cls for cls in type(model).__mro__ if name in cls.__dict__)
        if name in vars(model) or not owner.__module__.startswith("keras.src."):
            yield f"{owner.__qualname__}.{name}"
