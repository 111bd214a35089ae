"""The variables of this worker's replicas behind one variable of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def copies(variable: Any) -> tuple[tf.Variable, ...]:
    """The variables of this worker's replicas behind a Keras variable."""
    value = variable.value
    return value.distribute_strategy.experimental_local_results(value) if _is_distributed(value) else (value,)


def _is_distributed(value: Any) -> bool:
    return isinstance(value, tf.distribute.DistributedValues)
