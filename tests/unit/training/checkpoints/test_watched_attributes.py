"""Which attributes of callbacks have changed, and which of them a checkpoint can hold."""

from __future__ import annotations

import collections
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.training.checkpoints.callback_state import read, write
from tfdist.training.checkpoints.watched_attributes import WatchedAttributes


class Inner:
    def __init__(self) -> None:
        self.count, self.owner = 0, self


class Own(keras.callbacks.Callback):
    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        vars(self).update(attributes)


def add(callback: Any) -> None:
    callback.value.append(1)


CHANGES: list[tuple[Any, Any, bool]] = [
    (0, lambda callback: setattr(callback, "value", 1), True),
    ([], add, True),
    ({"a": [np.zeros(2)]}, lambda callback: callback.value["a"][0].fill(1), True),
    ((1, "a"), lambda callback: setattr(callback, "value", (1, "b")), True),
    (np.zeros(2), lambda callback: callback.value.fill(1), True),
    (None, lambda callback: setattr(callback, "value", 0.5), True),
    (tf.Variable(1.0), lambda callback: callback.value.assign(2.0), True),
    (set(), lambda callback: callback.value.add(1), False),
    (collections.deque(), add, False),
    (collections.defaultdict(list), lambda callback: callback.value["a"].append(1), False),
    (Inner(), lambda callback: setattr(callback.value, "count", 1), False),
    (np.random.default_rng(1), lambda callback: callback.value.random(), False),
    (np.random.RandomState(1), lambda callback: callback.value.rand(), False),
]


@pytest.mark.parametrize(("value", "change", "is_held"), CHANGES, ids=[type(value).__name__ for value, _, _ in CHANGES])
def test_what_has_changed_is_kept_or_named(value: Any, change: Any, is_held: bool) -> None:
    callback = Own(value=value, other=[1, {"a": 2.0}], kept=0)
    watched = WatchedAttributes([callback])
    assert (watched.changed(callback), watched.left_out()) == ([], [])
    change(callback)
    assert watched.changed(callback) == (["value"] if is_held else [])
    assert watched.left_out() == ([] if is_held else ["Own.value"])
    assert watched.left_out() == []  # said once


def test_models_and_what_a_callback_names_are_not_watched() -> None:
    callback = Own(net=keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), seen=0, kept_attributes=("seen",))
    watched = WatchedAttributes([callback, keras.callbacks.EarlyStopping()])
    callback.net.layers[0].kernel.assign(np.ones((2, 1)))
    callback.seen = 3
    assert (watched.changed(callback), watched.left_out()) == ([], [])


def test_others_that_refer_to_a_list_or_a_variable_see_what_is_restored() -> None:
    first, seen, weight = Own(seen=[], weight=tf.Variable(0.0), pair=(0, 0)), [5], tf.Variable(7.0)
    watched = WatchedAttributes([first])
    first.seen.append(1)
    first.weight.assign(2.0)
    first.pair = (1, [2])
    states, arrays = read([first], watched.changed)
    second = Own(seen=seen, weight=weight, pair=(0, 0))
    assert write([second], states, arrays) == []
    assert seen == [1] and float(weight) == 2.0 and second.pair == (1, [2])
