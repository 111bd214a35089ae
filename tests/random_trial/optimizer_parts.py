"""Optimizers that are drawn, with what Keras lets them do besides."""

from __future__ import annotations

from random import Random

_OPTIMIZERS = {
    "Adadelta": 1.0,
    "Adafactor": 0.05,
    "Adagrad": 0.1,
    "Adam": 0.02,
    "AdamW": 0.02,
    "Adamax": 0.02,
    "Ftrl": 0.1,
    "Lamb": 0.02,
    "Lion": 0.01,
    "Muon": 0.02,
    "Nadam": 0.02,
    "RMSprop": 0.01,
    "SGD": 0.05,
    "ScheduleFreeAdamW": 0.02,
}
_OFTEN = ("SGD", "Adam")

_SCHEDULES = (
    "keras.optimizers.schedules.ExponentialDecay({rate}, 3, 0.8)",
    "keras.optimizers.schedules.CosineDecay({rate}, 10)",
    "keras.optimizers.schedules.PiecewiseConstantDecay([2, 5], [{rate}, 0.01, 0.005])",
)
_CLIPPING = ("clipnorm=0.5", "clipvalue=0.1", "global_clipnorm=0.5")
_OWN = ("Normalizing(0.05)", "Normalizing(0.05, momentum=0.9)", "Centralizing(0.02)", "Assigning(0.05)")
"""Whose `apply` or `apply_gradients` is people's own."""

_SPECIAL = {
    "Adam": ("amsgrad=True",),
    "SGD": ("momentum=0.9", "momentum=0.9, nesterov=True"),
    "RMSprop": ("centered=True", "momentum=0.5"),
    "Ftrl": ("l1_regularization_strength=0.001",),
}


def optimizer(rng: Random, *, has_schedule: bool) -> str:
    """An expression of an optimizer.

    Args:
        rng: What is drawn.
        has_schedule: Whether its learning rate may be a schedule, which no callback can change.
    """
    name = rng.choice((*_OFTEN * 4, *_OPTIMIZERS))
    rate = str(_OPTIMIZERS[name])
    options = [rng.choice(_SPECIAL[name])] if name in _SPECIAL and rng.random() < 0.4 else []
    if rng.random() < 0.3:
        options.append(rng.choice(_CLIPPING))
    if rng.random() < 0.15 and name != "ScheduleFreeAdamW":
        options.append("use_ema=True, ema_momentum=0.8" + rng.choice(("", ", ema_overwrite_frequency=3")))
    if rng.random() < 0.15:
        options.append("weight_decay=0.01")
    if rng.random() < 0.2:
        options.append(f"gradient_accumulation_steps={rng.choice((2, 3))}")
    if rng.random() < 0.1:
        options.append("loss_scale_factor=8.0")
    # Muon in float64 fails with a schedule.
    if has_schedule and name != "Muon" and rng.random() < 0.2:
        rate = rng.choice(_SCHEDULES).format(rate=rate)
    made = f"keras.optimizers.{name}({', '.join([rate, *options])})"
    chance = rng.random()
    if chance > 0.88:
        return rng.choice(_OWN)
    if chance < 0.04 and "loss_scale" not in made:
        return f"keras.optimizers.LossScaleOptimizer({made}, initial_scale=64.0)"
    return made
