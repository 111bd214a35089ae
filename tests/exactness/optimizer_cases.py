"""Optimizers, and what is done to gradients on their way into them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.exactness.table import BATCH, ONLY_TRAINED, case, classifier, fitted, numbers, token_classifier, tokens

layers = keras.layers
optimizers = keras.optimizers


def trained_by(optimizer: keras.optimizers.Optimizer, samples: int, **fit: Any) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": optimizer}, **fit) | ONLY_TRAINED


@case("`clipnorm`")
def clipnorm(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, clipnorm=0.05), samples)


@case("`global_clipnorm`")
def global_clipnorm(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, global_clipnorm=0.05), samples)


@case("`clipvalue`")
def clipvalue(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.5, clipvalue=0.01), samples)


@case("SGD with Nesterov momentum")
def nesterov_momentum(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, momentum=0.9, nesterov=True), samples)


@case("Adam with AMSGrad")
def adam_with_amsgrad(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adam(0.01, amsgrad=True), samples)


@case("AdamW with a schedule of the learning rate")
def adamw_and_schedule(samples: int) -> dict[str, Any]:
    rate = optimizers.schedules.CosineDecay(0.01, 20)
    return trained_by(optimizers.AdamW(rate, weight_decay=0.1), samples)


@case("weight decay with exclusions")
def weight_decay_with_exclusions(samples: int) -> dict[str, Any]:
    optimizer = optimizers.AdamW(0.01, weight_decay=0.3)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return trained_by(optimizer, samples)


@case("Lion")
def lion(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Lion(0.003), samples)


@case("RMSprop, centered, with momentum")
def rmsprop(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.RMSprop(0.01, momentum=0.5, centered=True), samples)


@case("Adafactor")
def adafactor(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adafactor(0.01), samples)


@case("LAMB")
def lamb(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Lamb(0.01), samples)


@case("Muon", needs="optimizers.Muon")
def muon(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Muon(0.01), samples)


@case("Adagrad")
def adagrad(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adagrad(0.05), samples)


@case("Adadelta")
def adadelta(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adadelta(0.5), samples)


@case("Adamax")
def adamax(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adamax(0.01), samples)


@case("Nadam")
def nadam(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Nadam(0.01), samples)


@case("ScheduleFreeAdamW", needs="optimizers.ScheduleFreeAdamW")
def schedule_free(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.ScheduleFreeAdamW(0.01), samples)


@case("ScheduleFreeAdamW of a model that `fit` builds", needs="optimizers.ScheduleFreeAdamW")
def schedule_free_of_a_model_to_build(samples: int) -> dict[str, Any]:
    model = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(3, activation="softmax")])
    return fitted(model, *numbers(samples), {"optimizer": optimizers.ScheduleFreeAdamW(0.01)}) | ONLY_TRAINED


@case("FTRL")
def ftrl(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Ftrl(0.1), samples)


@case("`use_ema`")
def moving_average_of_the_weights(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8), samples)


@case("`ema_overwrite_frequency`")
def moving_average_that_overwrites(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.Adam(0.05, use_ema=True, ema_momentum=0.7, ema_overwrite_frequency=2), samples)


@case("gradient accumulation, the epoch ends inside one")
def gradient_accumulation(samples: int) -> dict[str, Any]:
    """Epochs of 2 or 3 batches: every epoch ends inside an accumulation at one time or another."""
    return trained_by(optimizers.Adam(0.05, gradient_accumulation_steps=4), samples)


@case("gradient accumulation with clipping and weight decay")
def gradient_accumulation_and_clipping(samples: int) -> dict[str, Any]:
    optimizer = optimizers.SGD(0.5, momentum=0.9, global_clipnorm=0.05, weight_decay=0.1, gradient_accumulation_steps=2)
    return trained_by(optimizer, samples)


@case("gradient accumulation of an embedding")
def gradient_accumulation_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier()
    return fitted(model, ids, ids % 3, {"optimizer": optimizers.Adam(0.05, gradient_accumulation_steps=2)})


@case("gradient accumulation with averages that overwrite")
def gradient_accumulation_and_averages(samples: int) -> dict[str, Any]:
    optimizer = optimizers.Adam(0.05, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3)
    return trained_by(optimizer, samples)


@case("sparse gradients of an embedding, clipped")
def sparse_gradients_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3, "softmax")])
    return fitted(model, ids, ids[:, 0] % 3, {"optimizer": optimizers.Adam(0.05, clipnorm=0.5)})


@case("sparse gradients of an embedding by Adagrad")
def sparse_gradients_by_adagrad(samples: int) -> dict[str, Any]:
    """Whose slots are updated row by row, too."""
    ids = tokens(samples)
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3, "softmax")])
    return fitted(model, ids, ids[:, 0] % 3, {"optimizer": optimizers.Adagrad(0.05)}) | ONLY_TRAINED


class WithPositions(layers.Layer):
    """Adds a vector for each place in a text, twice, and one table's vectors of words and of a mark."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = layers.Embedding(20, 4), layers.Embedding(7, 4)

    def call(self, ids: Any) -> Any:
        places = keras.ops.arange(keras.ops.shape(ids)[1])
        text = self.words(ids) + self.words(keras.ops.zeros((1,), "int32")) + self.places(places)
        return text + keras.ops.sin(self.places(places)) * text


@case("slices of lookups of the same rows in every batch, as of the places in a text, which are squared one by one")
def gradients_of_places(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential([keras.Input((7,)), WithPositions(), layers.Flatten(), layers.Dense(3, "softmax")])
    return fitted(model, ids, ids[:, 0] % 3, {"optimizer": optimizers.Adam(0.01)}) | ONLY_TRAINED


@case("gradient accumulation of Nadam")
def gradient_accumulation_by_nadam(samples: int) -> dict[str, Any]:
    """Which updates a variable that belongs to no weight."""
    return trained_by(optimizers.Nadam(0.01, gradient_accumulation_steps=2), samples)


@case("`loss_scale_factor`")
def static_loss_scale(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, loss_scale_factor=64.0), samples)


@case("`loss_scale_factor` with gradient accumulation")
def static_loss_scale_and_accumulation(samples: int) -> dict[str, Any]:
    return trained_by(optimizers.SGD(0.1, loss_scale_factor=64.0, gradient_accumulation_steps=2), samples)


@case("`LossScaleOptimizer` whose scale grows")
def loss_scaling(samples: int) -> dict[str, Any]:
    """The scale grows every second step."""
    return trained_by(optimizers.LossScaleOptimizer(optimizers.Adam(0.05), dynamic_growth_steps=2), samples)


def with_overflow(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """One sample of the first batch, the last replica's alone, whose gradient is not finite."""
    x, y = numbers(samples)
    x[BATCH - 2] = np.inf
    return x, y


@case("`LossScaleOptimizer`, an inf on one replica")
def loss_scaling_with_an_overflow(samples: int) -> dict[str, Any]:
    """A step that is skipped. Without shuffling, so that a sample more or less leaves the batches as they are."""
    x, y = with_overflow(samples)
    optimizer = optimizers.LossScaleOptimizer(optimizers.Adam(0.05), dynamic_growth_steps=2)
    return fitted(classifier(), x, y, {"optimizer": optimizer}, shuffle=False) | {"x": x[BATCH:], "y": y[BATCH:]}


@case("`LossScaleOptimizer`, an inf inside an accumulation")
def loss_scaling_with_an_overflow_and_accumulation(samples: int) -> dict[str, Any]:
    x, y = with_overflow(samples)
    inner = optimizers.Adam(0.05, gradient_accumulation_steps=2, global_clipnorm=0.1)
    optimizer = optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=3)
    return fitted(classifier(), x, y, {"optimizer": optimizer}, shuffle=False) | {"x": x[BATCH:], "y": y[BATCH:]}


@case("constraints on weights")
def constraints(samples: int) -> dict[str, Any]:
    model = classifier(kernel_constraint=keras.constraints.MaxNorm(0.7), bias_constraint="non_neg")
    return fitted(model, *numbers(samples))
