"""Optimizers, and what is done to gradients on their way into them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.exactness.table import case, classifier, fitted, numbers, tokens

layers = keras.layers
optimizers = keras.optimizers


def trained_by(optimizer: keras.optimizers.Optimizer, samples: int, **fit: Any) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": optimizer}, **fit)


@case
def clipnorm(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, clipnorm=0.05), samples)


@case
def global_clipnorm(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, global_clipnorm=0.05), samples)


@case
def clipvalue(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, clipvalue=0.01), samples)


@case
def nesterov_momentum(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, momentum=0.9, nesterov=True), samples)


@case
def adam_with_amsgrad(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adam(0.01, amsgrad=True), samples)


@case
def adamw_and_schedule(samples: int) -> dict[str, Any]:
    rate = optimizers.schedules.CosineDecay(0.01, 20)
    return trained_by(optimizers.AdamW(rate, weight_decay=0.1), samples)


@case
def weight_decay_with_exclusions(samples: int) -> dict[str, Any]:
    optimizer = optimizers.AdamW(0.01, weight_decay=0.3)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return trained_by(optimizer, samples)


@case
def lion(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Lion(0.003), samples)


@case
def rmsprop(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.RMSprop(0.01, momentum=0.5, centered=True), samples)


@case
def adafactor(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adafactor(0.01), samples)


@case
def lamb(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Lamb(0.01), samples)


@case
def muon(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Muon(0.01), samples)


@case
def ftrl(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Ftrl(0.1), samples)


@case
def moving_average_of_the_weights(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8), samples)


@case
def moving_average_that_overwrites(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adam(0.05, use_ema=True, ema_momentum=0.7, ema_overwrite_frequency=2), samples)


@case
def gradient_accumulation(samples: int) -> dict[str, Any]:
    """Epochs of 2 or 3 batches: every epoch ends inside an accumulation at one time or another."""
    return trained_by(optimizers.Adam(0.05, gradient_accumulation_steps=4), samples)


@case
def gradient_accumulation_and_clipping(samples: int) -> dict[str, Any]:
    optimizer = optimizers.SGD(0.5, momentum=0.9, global_clipnorm=0.05, weight_decay=0.1, gradient_accumulation_steps=2)
    return trained_by(optimizer, samples)


@case
def gradient_accumulation_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential(
        [keras.Input((7,)), layers.Embedding(20, 4, mask_zero=True), layers.Dense(3, activation="softmax")]
    )
    return fitted(model, ids, ids % 3, {"optimizer": optimizers.Adam(0.05, gradient_accumulation_steps=2)})


@case
def gradient_accumulation_and_averages(samples: int) -> dict[str, Any]:
    optimizer = optimizers.Adam(0.05, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3)
    return trained_by(optimizer, samples)


@case
def sparse_gradients_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3, "softmax")])
    return fitted(model, ids, ids[:, 0] % 3, {"optimizer": optimizers.Adam(0.05, clipnorm=0.5)})


@case
def static_loss_scale(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, loss_scale_factor=64.0), samples)


@case
def static_loss_scale_and_accumulation(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, loss_scale_factor=64.0, gradient_accumulation_steps=2), samples)


@case
def loss_scaling(samples: int) -> dict[str, Any]:
    """The scale grows every second step."""
    return trained_by(optimizers.LossScaleOptimizer(optimizers.Adam(0.05), dynamic_growth_steps=2), samples)


def with_overflow(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """One sample of the first batch, which is one replica's alone, whose gradient is not finite."""
    x, y = numbers(samples)
    x[3] = np.inf
    return x, y


@case
def loss_scaling_with_an_overflow(samples: int) -> dict[str, Any]:
    """A step that is skipped. Without shuffling, so that a sample more or less leaves the batches as they are."""
    x, y = with_overflow(samples)
    optimizer = optimizers.LossScaleOptimizer(optimizers.Adam(0.05), dynamic_growth_steps=2)
    return fitted(classifier(), x, y, {"optimizer": optimizer}, shuffle=False) | {"x": x[8:], "y": y[8:]}


@case
def loss_scaling_with_an_overflow_and_accumulation(samples: int) -> dict[str, Any]:
    x, y = with_overflow(samples)
    inner = optimizers.Adam(0.05, gradient_accumulation_steps=2, global_clipnorm=0.1)
    optimizer = optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=3)
    return fitted(classifier(), x, y, {"optimizer": optimizer}, shuffle=False) | {"x": x[8:], "y": y[8:]}


@case
def constraints(samples: int) -> dict[str, Any]:
    model = classifier(kernel_constraint=keras.constraints.MaxNorm(0.7), bias_constraint="non_neg")
    return fitted(model, *numbers(samples))
