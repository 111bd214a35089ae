"""State of the callbacks of a `fit`, those of the user's own included: read for a checkpoint, and restored from it.

The attributes of Keras's callbacks that make up their state are listed here. Of a callback of the user's own those are
kept that `fit` changes, and those that it names itself in its attribute `kept_attributes`, a sequence of
names.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.callbacks.callback_placement import only_writes

NAMES = "kept_attributes"
"""The attribute in which a callback of the user's own names those of its state."""

_OF_KERAS: dict[type, tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
    keras.callbacks.ModelCheckpoint: ("best", "_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    keras.callbacks.TensorBoard: ("_global_train_batch", "_global_test_batch"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
    keras.callbacks.History: ("history", "epoch"),
}
_PREFIX = "callbacks"
_ARRAY, _DTYPE = "$array", "$dtype"
"""The keys of the name that stands for an array, and of its dtype where NumPy's files do not know it."""

_REGISTERED = 2
"""NumPy's number for a dtype that another library registered, such as bfloat16."""

_TUPLE = "$tuple"
"""The key of a tuple's entries."""

_PAIRS = "$pairs"
"""The key of a dict's items, where JSON would turn its keys into texts, or one of them begins with $."""


def read(
    callbacks: Sequence[Any], changed: Callable[[Any], Sequence[str]] = lambda callback: ()
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The states of those of `callbacks` that have one.

    Args:
        callbacks: Those of a `fit`.
        changed: The attributes of a callback that are kept besides those that are named.

    Returns:
        Callback -> attribute -> value in JSON's types; and, by names of their own, copies of the arrays among the
        values.

    Raises:
        TypeError: A value is none of numbers, texts, arrays, and lists and dicts of these.
    """
    states: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any, place: str) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Mapping):
            entries = {key: plain(entry, f"{place}/{key}") for key, entry in value.items()}
            if all(isinstance(key, str) and not key.startswith("$") for key in entries):
                return entries
            return {_PAIRS: [[_plain_key(key, place), entry] for key, entry in entries.items()]}
        if isinstance(value, list | tuple):
            listed = [plain(entry, f"{place}/{number}") for number, entry in enumerate(value)]
            return {_TUPLE: listed} if type(value) is tuple else listed
        # A copy: a callback may change its array while a checkpoint is written.
        array = np.array(value)
        if array.dtype.kind in "OSU":
            raise TypeError(f"{place} is a {type(value).__name__}")
        arrays[place] = array
        return {_ARRAY: place} | ({_DTYPE: array.dtype.name} if array.dtype.isbuiltin == _REGISTERED else {})

    for name, callback in _named(callbacks):
        attributes = [*names_of(callback), *changed(callback)]
        if attributes:
            states[name] = {
                attribute: plain(getattr(callback, attribute), f"{_PREFIX}/{name}/{attribute}")
                for attribute in attributes
                if hasattr(callback, attribute)
            }
    return states, arrays


def write(callbacks: Sequence[Any], states: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Restores what `read` returned, to the callbacks of the same names.

    A variable, list, dict or array that a callback has already takes the value over, as others may refer to it.

    Returns:
        The names of states for which there is no callback.
    """

    def restored(value: Any) -> Any:
        if isinstance(value, list):
            return [restored(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get(_ARRAY), str):
            array = arrays[value[_ARRAY]]
            return array.view(value[_DTYPE]) if _DTYPE in value else array
        if isinstance(value.get(_TUPLE), list):
            return tuple(restored(entry) for entry in value[_TUPLE])
        if _PAIRS in value:
            return {key: restored(entry) for key, entry in value[_PAIRS]}
        return {key: restored(entry) for key, entry in value.items()}

    left = dict(states)
    for name, callback in _named(callbacks):
        for attribute, value in left.pop(name, {}).items():
            _put(callback, attribute, restored(value))
    return sorted(left)


def names_of(callback: Any) -> list[str]:
    """The attributes that a callback names, or that make up the state of one of Keras's."""
    names = [name for kind, names in _OF_KERAS.items() if isinstance(callback, kind) for name in names]
    return names + [name for name in getattr(callback, NAMES, ()) if name not in names]


def _put(callback: Any, attribute: str, value: Any) -> None:
    before = getattr(callback, attribute, None)
    if isinstance(before, tf.Variable | keras.Variable):
        before.assign(value)
    elif type(before) is list and isinstance(value, list):
        before[:] = value
    elif type(before) is dict and isinstance(value, dict):
        before.clear()
        before.update(value)
    elif type(before) is np.ndarray and isinstance(value, np.ndarray) and _is_alike(before, value):
        before[...] = value
    else:
        setattr(callback, attribute, value)


def _is_alike(before: np.ndarray, value: np.ndarray) -> bool:
    return before.shape == value.shape and before.dtype == value.dtype and before.flags.writeable


def _plain_key(key: Any, place: str) -> Any:
    plain = key.item() if isinstance(key, np.generic) else key
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise TypeError(f"a key of {place} is a {type(key).__name__}")


def _named(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """A name (the class and a number among those of the same class), and a callback."""
    numbers: Counter[str] = Counter()
    for callback in callbacks:
        kind = type(callback).__name__
        yield f"{kind}.{numbers[kind]}", callback
        numbers[kind] += 1


_OF_NOBODY = frozenset({*vars(keras.callbacks.Callback()), "_model", "model", "params"})
"""Attributes that every callback has from Keras."""

_CONTAINERS = (list, tuple, deque, dict, set, frozenset)


class WatchedAttributes:
    """A watch on what changes in callbacks from now on; made when a `fit` begins, before anything is restored.

    Args:
        callbacks: Those of a `fit`. Keras's, tfdist's and some libraries' are not watched, nor what one names itself.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self._callbacks = [callback for callback in callbacks if _is_of_users(callback)]
        self._before = {id(callback): _digests(callback) for callback in self._callbacks}
        self._is_said: set[str] = set()

    def changed(self, callback: Any) -> list[str]:
        """The attributes of a callback that have changed and that a checkpoint can hold."""
        return [name for name in self._changed(callback) if _is_held(getattr(callback, name))]

    def left_out(self) -> list[str]:
        """The attributes that have changed and that no checkpoint can hold, each once: `Class.attribute`."""
        found = [
            f"{type(callback).__name__}.{name}"
            for callback in self._callbacks
            for name in self._changed(callback)
            if not _is_held(getattr(callback, name))
        ]
        new = [name for name in dict.fromkeys(found) if name not in self._is_said]
        self._is_said.update(new)
        return new

    def _changed(self, callback: Any) -> list[str]:
        before = self._before.get(id(callback))
        if before is None:
            return []
        return [name for name, digest in _digests(callback).items() if digest != before.get(name)]


def _is_held(value: Any) -> bool:
    return is_plain(value) or is_variable(value)


def is_variable(value: Any) -> bool:
    """Returns whether a value is a variable of TensorFlow's or Keras's that has the same value on all replicas."""
    if type(value) is not keras.Variable and not isinstance(value, tf.Variable):
        return False
    return getattr(value, "synchronization", None) not in ("on_read", tf.VariableSynchronization.ON_READ)


def is_plain(value: Any) -> bool:
    """Returns whether a value is a number, a text, an array, or a list, tuple or dict of these, of no other class."""
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(isinstance(key, str | int | float | bool) and is_plain(entry) for key, entry in value.items())
    if type(value) is np.ndarray:
        return value.dtype.kind not in "OSU"
    return value is None or type(value) in (bool, int, float, str) or isinstance(value, np.number | np.bool_)


def _is_of_users(callback: Any) -> bool:
    is_of_library = type(callback).__module__.startswith(("keras.", "tfdist.", "tensorflow.")) or only_writes(callback)
    return not is_of_library


def _digests(callback: Any) -> dict[str, str]:
    """Attribute -> a text that changes with its value."""
    named = {*_OF_NOBODY, *names_of(callback)}
    module = type(callback).__module__
    return {name: _Digest(module).of(value) for name, value in vars(callback).items() if name not in named}


class _Digest:
    """A text that changes with a value. Nothing is pickled, which could save a whole model.

    Args:
        module: The module of the callback. Objects of its classes are looked into; others may be a model, or a
            connection, which somebody else keeps.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._seen: set[int] = set()

    def of(self, value: Any) -> str:
        return hashlib.sha256(b"".join(self._parts(value))).hexdigest()

    def _parts(self, value: Any) -> Iterator[bytes]:
        yield f"{type(value).__name__} ".encode()
        if value is None or isinstance(value, bool | int | float | str | bytes | np.number | np.bool_):
            yield repr(value).encode()
        elif is_variable(value) or type(value) is np.ndarray:
            array = np.asarray(value)
            yield f"{array.dtype.name} {array.shape}".encode()
            yield b"" if array.dtype.hasobject else array.tobytes()
        elif isinstance(value, random.Random):
            yield repr(value.getstate()).encode()
        elif isinstance(value, np.random.Generator):
            yield repr(value.bit_generator.state).encode()
        elif isinstance(value, np.random.RandomState):
            yield b"".join(self._parts(value.get_state()))
        elif id(value) not in self._seen and (isinstance(value, _CONTAINERS) or type(value).__module__ == self._module):
            self._seen.add(id(value))
            yield from self._within(value)

    def _within(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, set | frozenset):
            yield b"".join(sorted(b"".join(self._parts(entry)) for entry in value))
        elif isinstance(value, dict):
            for key, entry in value.items():
                yield repr(key).encode()
                yield from self._parts(entry)
        elif isinstance(value, _CONTAINERS):
            yield str(len(value)).encode()
            for entry in value:
                yield from self._parts(entry)
        else:
            for name, entry in getattr(value, "__dict__", {}).items():
                yield name.encode()
                yield from self._parts(entry)
