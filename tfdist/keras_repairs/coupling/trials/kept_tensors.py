"""Gives each replica its own of what the user's objects keep of a step for a while, as a model's `call` does.

The replicas of a process are threads that share all objects of Python, and take turns where they meet. What one of them
has kept on an object, the next one has replaced when its turn comes again: it would go on with the features of another
replica's samples, without a word.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.keras_repairs.coupling.trials.kept_state import is_of_user, own_attributes

_MANY = 1000
"""Items of a container from which on they are not looked through."""

_TENSORS = tf.Tensor | tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices


def in_step_of(model: keras.Model) -> contextlib.AbstractContextManager[None]:
    """The code inside is a replica's step of this model."""
    return changing(REPLICA_SCOPE, kept=KeptTensors(model))


def merge_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `_MirroredReplicaContext._merge_call`, in which the other replicas of a process have their turns."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = REPLICA_SCOPE.get().kept
        if kept is None:
            return original(self, *args, **kwargs)
        state = kept.read()
        result = original(self, *args, **kwargs)
        kept.write(state)
        return result

    return repaired


class KeptTensors:
    """The tensors and numbers that a model and what it holds keep of a step, in attributes, lists and dicts.

    Args:
        root: A model, or another object of the user's. Objects of the user's classes are looked through.
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    @functools.cached_property
    def _owners(self) -> list[Any]:
        if not isinstance(self._root, keras.layers.Layer):
            return [self._root]
        return [layer for layer in self._root._flatten_layers() if is_of_user(type(layer))]

    def read(self) -> list[_Kept]:
        """Returns what the objects keep now."""
        found: list[_Kept] = []
        seen: dict[int, Any] = {}
        waiting = list(self._owners)
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen[id(value)] = value
            if isinstance(value, dict | list):
                if len(value) > _MANY:
                    continue
                waiting.extend(value.values() if isinstance(value, dict) else value)
                if _is_of_step(value):
                    found.append(_Items(value, value.copy()))
            elif is_of_user(type(value)) and hasattr(value, "__dict__"):
                attributes = own_attributes(value)
                waiting.extend(attributes.values())
                found.append(_Attributes(value, attributes, _is_built(value)))
        return found

    def write(self, state: list[_Kept]) -> None:
        """Puts back what was read, where others have replaced it."""
        for kept in state:
            kept.restore()


@dataclass(frozen=True)
class _Attributes:
    """The attributes of an object.

    Attributes:
        owner: The object.
        values: Of its attributes.
        was_built: Whether it is a layer that was built. What `build` sets is all replicas'.
    """

    owner: Any
    values: dict[str, Any]
    was_built: bool

    def restore(self) -> None:
        if _is_built(self.owner) != self.was_built:
            return
        now = own_attributes(self.owner)
        # Past Keras, which tracks what is assigned.
        for name, value in self.values.items():
            if now.get(name) is not value and _is_of_step(value) and _is_of_step(now.get(name)):
                object.__setattr__(self.owner, name, value)
        for name in now.keys() - self.values.keys():
            if _has_tensors(now[name]):
                del vars(self.owner)[name]


@dataclass(frozen=True)
class _Items:
    """The items of a list or dict.

    Attributes:
        owner: The container.
        values: A copy of it.
    """

    owner: Any
    values: Any

    def restore(self) -> None:
        if _is_same(self.owner, self.values) or not _is_of_step(self.owner):
            return
        if isinstance(self.owner, list):
            self.owner[:] = self.values
        else:
            self.owner.clear()
            self.owner.update(self.values)


_Kept = _Attributes | _Items


def _is_built(value: Any) -> bool:
    return isinstance(value, keras.layers.Layer) and value.built


def _is_of_step(value: Any) -> bool:
    """Returns whether a step may have left it: None, tensors, numbers, and what holds nothing else. Not layers and the
    like."""
    if isinstance(value, dict | list | tuple):
        return len(value) <= _MANY and all(map(_is_of_step, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, _TENSORS | int | float) and not isinstance(value, bool)


def _has_tensors(value: Any) -> bool:
    """Returns whether it is a tensor, or holds nothing but what a step may have left, and tensors among it."""
    if isinstance(value, dict | list | tuple):
        items = value.values() if isinstance(value, dict) else value
        return _is_of_step(value) and any(map(_has_tensors, items))
    return isinstance(value, _TENSORS)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and _is_same(list(one.values()), list(other.values()))
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
