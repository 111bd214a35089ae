"""The optimizers that can be cut, and how: between any elements, or between variables, so that one worker has each."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.keras_repairs.sharded_embeddings.lazy_adam import LazyAdam
from tfdist.keras_repairs.sharding_policies.optimizer_policy import Granularity, refusal

_ELEMENTWISE: tuple[Any, ...] = tuple(
    getattr(keras.optimizers, name)
    for name in (
        "SGD",
        "Adam",
        "AdamW",
        "Adamax",
        "Adagrad",
        "Adadelta",
        "Nadam",
        "RMSprop",
        "Lion",
        "Ftrl",
        "ScheduleFreeAdamW",
    )
    if hasattr(keras.optimizers, name)
)
"""Those of Keras whose update of an element depends on nothing of other elements but norms that clip gradients."""

_UPDATE = ("build", "update_step", "_backend_update_step", "_apply_weight_decay")
"""The methods that decide it."""

_WHOLE: tuple[Any, ...] = (keras.optimizers.Lamb, keras.optimizers.Adafactor) + tuple(
    getattr(keras.optimizers, name) for name in ("Muon",) if hasattr(keras.optimizers, name)
)
"""Optimizers of Keras whose update of a variable depends on nothing of other variables."""

KNOWN = (*_ELEMENTWISE, *_WHOLE)
"""The optimizers whose updates are known."""

_KEPT = (
    "apply",
    "_backend_apply_gradients",
    "_clip_gradients",
    "_clip_by_norm",
    "_update_model_variables_moving_average",
    "_overwrite_model_variables_with_average_value",
    "_overwrite_variables_directly_with_gradients",
    "_filter_empty_gradients",
    "_backend_increment_gradient_accumulators",
    "_backend_reset_gradient_accumulators",
    "finalize_variable_values",
    "save_own_variables",
    "load_own_variables",
    "set_weights",
    "add_variable",
    "add_variable_from_reference",
    "add_optimizer_variables",
    "_get_variable_index",
    "_var_key",
    "variables",
)
"""What an optimizer must have from Keras: it is given shards, or computed over the workers."""


def is_of_keras(optimizer: Any) -> bool:
    """Returns whether an optimizer makes the state of one of Keras's own, which is known."""
    return any(type(optimizer).build is kind.build for kind in KNOWN)


def kind_of(optimizer: Any) -> Granularity:
    """Returns how an optimizer is cut.

    Raises:
        UnsupportedError: It cannot be.
    """
    kind = type(optimizer)
    changed = [name for name in _KEPT if getattr(kind, name) is not getattr(keras.optimizers.Optimizer, name)]
    if not any(_has_update_of(kind, known) for known in KNOWN):
        changed += [
            name
            for name in ("_backend_update_step", "_apply_weight_decay")
            if getattr(kind, name) is not getattr(keras.optimizers.Optimizer, name)
        ]
    if changed:
        raise refusal(optimizer, f"its class overrides {', '.join(changed)}, which then gets shards of gradients")
    return "elements" if any(_has_update_of(kind, known) for known in (*_ELEMENTWISE, LazyAdam)) else "variables"


def is_linear(optimizer: Any) -> bool:
    """Returns whether an optimizer computes nothing but sums of gradients, so that these may be added up before."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    limits = (inner.clipnorm, inner.global_clipnorm, inner.clipvalue)
    has_update = _has_update_of(type(inner), keras.optimizers.SGD) and kind_of(inner) == "elements"
    return has_update and not any(limit for limit in limits)


def _has_update_of(kind: Any, known: Any) -> bool:
    return all(getattr(kind, name) is getattr(known, name) for name in _UPDATE)
