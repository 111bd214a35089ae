"""Attributes that `fit` changes in callbacks of the user's own: they are kept though no callback names them."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.callbacks.library_callbacks import only_writes
from tfdist.training.checkpoints import callback_state

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
    named = {*_OF_NOBODY, *callback_state.names_of(callback)}
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
