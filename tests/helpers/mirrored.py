"""The strategy that tfdist makes for several devices of one process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf

from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.strategy import choose, make
from tfdist.runtime.strategy_settings import settings_of


@functools.cache
def mirrored(replicas: int) -> tf.distribute.Strategy:
    """MirroredStrategy over the first logical CPUs, under which first steps are not checked: see `checking`."""
    devices = [f"/device:CPU:{device}" for device in range(replicas)]
    strategy, _ = make(choose(devices, workers=1, logical=True), devices)
    settings_of(strategy).check = "off"
    return strategy


@contextlib.contextmanager
def checking(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Checks the first step of each kind under `strategy`, as every run does.

    Elsewhere tests look at what finds out beforehand how a step is shared out, which the check would make up for.
    """
    warn_once.cache_clear()
    settings_of(strategy).check = "auto"
    try:
        yield
    finally:
        settings_of(strategy).check = "off"


@contextlib.contextmanager
def strictly(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Refuses under `strategy` what would be warned of, as `--strict` does: steps that run whole, too."""
    warn_once.cache_clear()
    settings_of(strategy).strict = True
    try:
        yield
    finally:
        settings_of(strategy).strict = False


@contextlib.contextmanager
def of_each_replica(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Lets BatchNormalization take each replica's own statistics under `strategy`, as `--batch-norm replica` does."""
    settings_of(strategy).batch_norm = "replica"
    try:
        yield
    finally:
        settings_of(strategy).batch_norm = "synchronized"
