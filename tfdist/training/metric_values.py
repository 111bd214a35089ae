"""Loss and metrics of a training as numbers and as texts, and the loss scale of its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_SMALL = 1e-3


def metric_texts(values: Mapping[str, float]) -> dict[str, str]:
    """`{"loss": "0.1234", "accuracy": "0.9812"}`: losses first, training before validation."""
    ordered = sorted(values, key=lambda name: (name.startswith("val_"), not name.endswith("loss")))
    return {name: _text(values[name]) for name in ordered}


def metrics_line(values: Mapping[str, float]) -> str:
    """`loss 0.1234  accuracy 0.9812`: the metrics of one epoch."""
    return "  ".join(f"{name} {text}" for name, text in metric_texts(values).items())


def _text(value: float) -> str:
    return f"{value:.3e}" if 0 < abs(value) < _SMALL else f"{value:.4f}"


def metric_values(model: keras.Model, logs: Any) -> dict[str, float]:
    """Loss and metrics of the epoch so far: from the metrics, which are those of all replicas; the rest from the logs.

    A metric that was never updated, such as Keras's loss in a `train_step` with a loss of its own, is left out, and so
    is the log of its name, which is the value of one replica.
    """
    values: dict[str, float] = {}
    unused = set()
    for metric in model.metrics:
        if not getattr(metric, "built", True) or (isinstance(metric, keras.metrics.Mean) and not _number(metric.count)):
            unused.add(metric.name)
            continue
        result = metric.result()
        named = result if isinstance(result, Mapping) else {metric.name: result}
        for name, value in named.items():
            _add(values, name, value)
    for name, value in logs.items() if isinstance(logs, Mapping) else ():
        if name not in values and name not in unused:
            _add(values, name, value)
    return values


def numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """The logs of an epoch as numbers; each value of a metric that has several, as `f1_score[0]`, `f1_score[1]`."""
    values: dict[str, float] = {}
    for name, value in logs.items():
        _add(values, name, value)
    return values


def loss_scale(model: keras.Model) -> float:
    """The factor of the gradients that keeps them from vanishing in float16."""
    optimizer = getattr(model, "optimizer", None)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return _number(optimizer.dynamic_scale) if optimizer.built else float(optimizer.initial_scale)
    return float(getattr(optimizer, "loss_scale_factor", None) or 1.0)


def _number(variable: keras.Variable) -> float:
    return float(tf.convert_to_tensor(variable.value))


def _add(values: dict[str, float], name: str, value: Any) -> None:
    for path, leaf in keras.tree.flatten_with_path(value):
        array = np.asarray(keras.ops.convert_to_numpy(leaf), np.float64)
        label = "/".join([name, *map(str, path)])
        if array.size == 1:
            values[label] = float(array.reshape(()))
        else:
            values |= {f"{label}[{place}]": float(item) for place, item in enumerate(array.ravel())}
