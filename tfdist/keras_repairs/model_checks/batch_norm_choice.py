"""Decides whether a BatchNormalization takes the statistics of the global batch, or each replica its own."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

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
