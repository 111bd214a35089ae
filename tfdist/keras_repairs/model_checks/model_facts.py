"""Facts of a model: its layers, which of its steps are the user's own, and what explains other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.distillation.distilled_loss import is_distilled
from tfdist.runtime.strategy_settings import settings_of


def is_synchronized(layer: keras.layers.BatchNormalization) -> bool:
    """Returns whether the statistics of `layer` are those of the global batch: it asks for them itself, or the run
    does."""
    return bool(layer.synchronized) or settings_of(tf.distribute.get_strategy()).batch_norm == "synchronized"


def synchronized_layers(model: Any) -> list[Any]:
    """The layers of `model` in which the replicas meet while it trains; a frozen one keeps the statistics it has."""
    return [layer for layer in _trained(model) if is_synchronized(layer)]


def unsynchronized_layers(model: Any) -> list[Any]:
    """The layers of `model` whose statistics are each replica's own while it trains."""
    return [layer for layer in _trained(model) if not is_synchronized(layer)]


def _trained(model: Any) -> list[Any]:
    layers = model._flatten_layers()
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable]


_KERAS = "keras.src."
_DISTILLATION = "keras.src.distillation."


def is_users_step(model: Any, step: str) -> bool:
    """Returns whether `step` ("train_step" or "test_step") of `model`, or the loss in it, is the user's own code.

    Keras's Distiller counts as a user's: its loss takes means over a replica's samples, too.
    """
    return any(is_overridden(model, name) for name in (step, "compute_loss"))


def is_overridden(model: Any, name: str) -> bool:
    """Returns whether `model` has a method `name` that is neither Keras's nor that of `distill`, which counts as
    Keras's."""
    if name in vars(model) and not is_distilled(vars(model)[name]):
        return True
    owner = next(cls for cls in type(model).__mro__ if name in cls.__dict__)
    return not owner.__module__.startswith(_KERAS) or owner.__module__.startswith(_DISTILLATION)


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """Every layer below a model once, in the order in which it keeps them; the model itself is none of them."""
    found: dict[int, keras.layers.Layer] = {}
    for layer in model._flatten_layers(include_self=False):
        found.setdefault(id(layer), layer)
    return list(found.values())


def unbuilt_parts(model: Any, *, with_metrics: bool = False) -> list[Any]:
    """The layers of a model that are not built yet: a step that calls them builds them.

    Args:
        model: A compiled model. Without a `call`, where its steps call its parts, it is none of them itself.
        with_metrics: Whether to include metrics without variables.
    """
    layers = model._flatten_layers(include_self=type(model).call is not keras.Model.call)
    metrics = [metric for metric in model.metrics if not metric.variables] if with_metrics else []
    return [*(layer for layer in layers if not layer.built), *metrics]


def has_unbuilt_trackers(model: Any) -> bool:
    """Returns whether the first call of a model's `compute_loss` makes metrics, one for each of several losses.

    Where a step that is tried out made them, they would not be of the replicas.
    """
    loss = model._compile_loss
    if loss is None or loss.built:
        return False
    return keras.tree.is_nested(loss._user_loss) or len(getattr(model, "outputs", None) or ()) > 1


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
