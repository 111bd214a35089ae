"""The seed that datasets of a strategy take where they are given none."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import tensorflow as tf

OUTSIDE_A_RUN = 0
"""Where no run has a seed."""

_seeds: WeakKeyDictionary[tf.distribute.Strategy, int] = WeakKeyDictionary()


def set_default_seed(strategy: tf.distribute.Strategy, seed: int) -> None:
    """Makes `seed`, the run's, the default of datasets under `strategy`."""
    _seeds[strategy] = seed


def default_seed(strategy: tf.distribute.Strategy) -> int:
    """The run's seed; `OUTSIDE_A_RUN` under a strategy that no run has given one."""
    return _seeds.get(strategy, OUTSIDE_A_RUN)
