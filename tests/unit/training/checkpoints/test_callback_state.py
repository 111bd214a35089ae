"""The state of callbacks, through JSON and arrays into other callbacks of the same kinds."""

from __future__ import annotations

import collections
import io
import json
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.training.checkpoints.callback_state import WatchedAttributes, read, write


class Inner:
    def __init__(self) -> None:
        self.count, self.owner = 0, self


class Watched(keras.callbacks.Callback):
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
    callback = Watched(value=value, other=[1, {"a": 2.0}], kept=0)
    watched = WatchedAttributes([callback])
    assert (watched.changed(callback), watched.left_out()) == ([], [])
    change(callback)
    assert watched.changed(callback) == (["value"] if is_held else [])
    assert watched.left_out() == ([] if is_held else ["Watched.value"])
    assert watched.left_out() == []  # said once


def test_models_and_what_a_callback_names_are_not_watched() -> None:
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    callback = Watched(net=net, seen=0, kept_attributes=("seen",))
    watched = WatchedAttributes([callback, keras.callbacks.EarlyStopping()])
    callback.net.layers[0].kernel.assign(np.ones((2, 1)))
    callback.seen = 3
    assert (watched.changed(callback), watched.left_out()) == ([], [])


def test_others_that_refer_to_a_list_or_a_variable_see_what_is_restored() -> None:
    first, seen, weight = Watched(seen=[], weight=tf.Variable(0.0), pair=(0, 0)), [5], tf.Variable(7.0)
    watched = WatchedAttributes([first])
    first.seen.append(1)
    first.weight.assign(2.0)
    first.pair = (1, [2])
    states, arrays = read([first], watched.changed)
    second = Watched(seen=seen, weight=weight, pair=(0, 0))
    assert write([second], states, arrays) == []
    assert seen == [1] and float(weight) == 2.0 and second.pair == (1, [2])


BFLOAT16 = tf.constant([0.5, -3.0], tf.bfloat16).numpy()


class Own(keras.callbacks.Callback):
    kept_attributes = ("seen", "mean", "by_epoch")

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.mean, self.by_epoch, self.secret = 0, np.zeros(2), {}, object()


def stopping() -> keras.callbacks.EarlyStopping:
    return keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)


def through_a_file(callbacks: list[Any], others: list[Any]) -> list[str]:
    states, arrays = read(callbacks)
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        return write(others, json.loads(json.dumps(states)), dict(found))


def test_each_gets_the_state_of_its_like() -> None:
    first, second = stopping(), stopping()
    first.wait, first.best, first.best_epoch = 1, np.float32(0.5), 4
    first.best_weights = [np.ones((2, 3), np.float32), np.zeros(3, np.float16), BFLOAT16]
    second.wait = 2
    plateau, saver = keras.callbacks.ReduceLROnPlateau(), keras.callbacks.ModelCheckpoint("x.keras")
    plateau.cooldown_counter, saver.best = 7, 0.25
    others = [stopping(), stopping(), keras.callbacks.ReduceLROnPlateau(), keras.callbacks.ModelCheckpoint("x.keras")]
    assert through_a_file([first, plateau, second, saver], others) == []
    assert (others[0].wait, others[0].best, others[0].best_epoch, others[1].wait) == (1, 0.5, 4, 2)
    for given, expected in zip(others[0].best_weights, first.best_weights, strict=True):
        assert given.dtype == expected.dtype
        np.testing.assert_array_equal(given, expected)
    assert others[1].best_weights is None
    assert (others[2].cooldown_counter, others[3].best) == (7, 0.25)


def test_what_is_set_stays_as_the_script_has_it() -> None:
    patient = keras.callbacks.EarlyStopping(patience=9)
    through_a_file([stopping()], [patient])
    assert patient.patience == 9


def test_a_callback_of_ones_own_names_its_attributes() -> None:
    own, other = Own(), Own()
    own.seen, own.mean, own.by_epoch = 3, np.arange(2.0), {"1": [0.5, 0.25]}
    secret = other.secret
    through_a_file([own], [other])
    assert (other.seen, other.by_epoch) == (3, {"1": [0.5, 0.25]})
    np.testing.assert_array_equal(other.mean, own.mean)
    assert other.secret is secret


@pytest.mark.parametrize(
    "value",
    [
        {0: 1.5, 2: [3]},
        {"epochs": {1: {2.5: "a"}}},
        {None: 1, True: 2},
        {"a": 1, 7: np.int64(8)},
        {},
        {"$pairs": 1},
        {"$array": 1},
    ],
)
def test_keys_stay_what_they_are(value: dict[Any, Any]) -> None:
    own, other = Own(), Own()
    own.by_epoch = value
    through_a_file([own], [other])
    assert other.by_epoch == value
    assert [type(key) for key in other.by_epoch] == [type(key) for key in value]


def test_what_was_read_is_of_its_moment() -> None:
    """It is written in the background, while callbacks change what is theirs."""
    own = Own()
    _, arrays = read([own])
    own.mean += 1
    np.testing.assert_array_equal(arrays["callbacks/Own.0/mean"], np.zeros(2))


def test_what_has_no_callback_any_more_is_named() -> None:
    assert through_a_file([stopping(), Own()], [stopping()]) == ["Own.0"]


def test_what_is_no_number_is_refused() -> None:
    own = Own()
    own.by_epoch = {"1": object()}
    with pytest.raises(TypeError, match="callbacks/Own.0/by_epoch/1 is a object"):
        read([own])
    own.by_epoch = {(1, 2): 0}
    with pytest.raises(TypeError, match="a key of callbacks/Own.0/by_epoch is a tuple"):
        read([own])
